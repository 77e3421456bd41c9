// Generates completion scripts for shells from the verbs and options, for `carma completion`.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/server_choices.h"
#include "cli/syntax.h"

namespace carma::cli {

struct VerbWords {
  std::vector<std::string> names;  // the verb, followed by its aliases: "list", "ls"
  std::string help;
  std::vector<OptionFacts> options;
  std::vector<VerbWords> verbs = {};    // subverbs, such as "info" of `carma trace`; empty if none
  std::vector<std::string> words = {};  // possible arguments; empty for files
  TaskNames tasks = TaskNames::kNone;   // whether its arguments are task numbers
  bool takes_files = false;             // files as well as verbs: `carma estimate FILE | evaluate`
};

// shell: "bash", "zsh" or "fish". The options in `global` are allowed before every verb. Returns
// kInvalid for any other shell.
Result<std::string> CompletionScript(const std::string& shell, const std::vector<VerbWords>& verbs,
                                     const std::vector<OptionFacts>& global);

}  // namespace carma::cli
