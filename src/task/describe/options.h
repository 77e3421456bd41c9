// Submit options, shared by script directives and the command line.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace carma::task {

struct OptionInfo {
  std::string_view name;   // without dashes: "gpus"
  char letter;             // 0: none
  std::string_view value;  // placeholder in the help; empty for a switch
  std::string_view help;
  bool sbatch;                      // has the same meaning in an #SBATCH line
  std::string_view group = "Task";  // section of the help
};

// Every option, in help order.
std::span<const OptionInfo> SubmitOptions();
// The option with this long name or letter, both without dashes; null if there is none.
const OptionInfo* FindOption(std::string_view name_or_letter);

// Stores a value in the draft of a description. file: where a training option was read. If the
// value is invalid, leaves the draft unchanged and returns kInvalid with what was expected, but
// without the file and line.
struct Draft;
Result<Unit> StoreOption(const OptionInfo& option, std::string_view value, std::string_view file,
                         Draft& draft);

}  // namespace carma::task
