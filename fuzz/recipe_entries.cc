#include <string>

#include "base/result.h"
#include "base/text.h"
#include "entries.h"
#include "estimate/recipe/find.h"
#include "estimate/recipe/settings.h"
#include "estimate/recipe/shell.h"
#include "estimate/training_words.h"

namespace carma::fuzz {
namespace {

// Stands in for every file that the training run refers to. Returns a model's sizes for
// config.json, a revision for refs/main, and the fuzzed bytes for any other file.
Result<std::string> AnyFile(const std::string& path, std::string_view bytes) {
  CARMA_CHECK(path.starts_with('/'), "file paths are absolute");
  if (path.ends_with("refs/main")) return std::string("0a");
  if (!path.ends_with("/config.json")) return std::string(bytes);
  return std::string(
      R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":2,)"
      R"("intermediate_size":128,"vocab_size":100})");
}

void CheckFound(task::TaskSpec spec, std::string_view bytes) {
  const estimate::TrainingFound found = estimate::FindTraining(
      spec, [&](const std::string& path, std::size_t) { return AnyFile(path, bytes); });
  CARMA_CHECK(estimate::CheckWords(found.words).has_value(), "the words found are valid");
  CARMA_CHECK(found.words.size() <= 1 || !found.config.empty(),
              "only an inference engine's share is found without a model");
  for (const std::string& note : found.notes)
    CARMA_CHECK(!base::HasControls(note), "a note is one line");
  const auto before = task::Validate(spec);
  spec.training = found.words;
  if (!found.config.empty()) spec.model_summary = found.config;
  CARMA_CHECK(!before || task::Validate(spec).has_value(), "the task stays valid");
}

}  // namespace

void FuzzTraining(std::string_view bytes) {
  task::TaskSpec spec;
  spec.name = "fuzz";
  spec.workdir = "/lab";
  spec.stdout_path = "/lab/out";
  spec.environment = {{"HOME", "/home/ann"}};
  spec.script = "#!/bin/sh\n" + std::string(bytes);
  spec.script_args = {"1", "two words"};
  CheckFound(spec, bytes);
  estimate::ShellBranches branches;
  const estimate::SourceReader source = [&](const std::string&, const std::string&) {
    return Result<std::string>(bytes);
  };
  for (const estimate::ShellCommand& command : estimate::CommandsOf(
           bytes, estimate::KnownWords(spec.script_args), spec.environment, source, branches))
    CARMA_CHECK(!command.words.empty() && command.line >= 1,
                "a command has words and a line number");
  CARMA_CHECK(estimate::ReadPythonText(bytes, "t.py").size() <= estimate::kMaxSettings,
              "settings are bounded");
}

void FuzzSettings(std::string_view bytes) {
  for (const auto read : {&estimate::ReadYaml, &estimate::ReadJsonSettings, &estimate::ReadToml}) {
    const auto settings = read(bytes, "f.yaml");
    if (!settings) {
      CARMA_CHECK(settings.error().message.starts_with("f.yaml"),
                  "an error message names the file");
      continue;
    }
    CARMA_CHECK(settings->size() <= estimate::kMaxSettings, "settings are bounded");
  }
  // Reads the bytes as a training configuration.
  task::TaskSpec spec;
  spec.name = "fuzz";
  spec.workdir = "/lab";
  spec.stdout_path = "/lab/out";
  for (const char* const start : {"axolotl train c.yaml", "llamafactory-cli train c.yaml",
                                  "tune run x_distributed --config c.yaml",
                                  "accelerate launch --config_file c.yaml t.py --model m --lr 1",
                                  "deepspeed t.py --deepspeed c.json --model m --lr 1",
                                  "torchrun -m torchtitan.train --job.config_file c.toml"}) {
    spec.command.clear();
    for (const std::string_view word : base::SplitWords(start)) spec.command.emplace_back(word);
    CheckFound(spec, bytes);
  }
}

}  // namespace carma::fuzz
