// Finds the training run that a command starts and reads its settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimate/recipe/meaning.h"
#include "estimate/recipe/settings.h"
#include "estimate/recipe/shell.h"

namespace carma::estimate {

struct Launch {
  Framework framework = Framework::kTrainer;
  bool accelerates = false;        // started by accelerate
  std::string program;             // the script or module that trains
  std::vector<Setting> launcher;   // options of torchrun, accelerate, deepspeed
  std::vector<Setting> options;    // program options
  std::vector<std::string> files;  // configurations named without an option, as written
};

// Recognises torchrun, accelerate launch, deepspeed, axolotl, llamafactory-cli, tune, trl, swift,
// vllm serve and Python scripts, with any words in front of them (env, srun, uv run …). place:
// where the command was found, to be recorded as the source of its settings; may be empty. Returns
// nullopt if the command does not start a supported program.
std::optional<Launch> LaunchOf(const std::vector<ShellWord>& words, std::string_view place);

// A script that a shell runs, with its arguments: "bash train.sh 4".
struct NestedScript {
  std::string path;  // empty: `text` is the script
  std::string text;  // argument of -c
  std::vector<ShellWord> args;
};
std::optional<NestedScript> NestedScriptOf(const std::vector<ShellWord>& words);

}  // namespace carma::estimate
