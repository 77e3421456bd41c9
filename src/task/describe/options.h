// Submit options, the same for directives in scripts and for the command line.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace carma::task {

struct OptionInfo {
  std::string_view name;   // without dashes: "gpus"
  char letter;             // 0: none
  std::string_view value;  // placeholder for help, empty: a switch without a value
  std::string_view help;
  bool sbatch;                      // means the same as #SBATCH
  std::string_view group = "Task";  // of the help
};

// Every option, in the order of the help.
std::span<const OptionInfo> SubmitOptions();
// The option with this long name or letter, both without dashes; null: none.
const OptionInfo* FindOption(std::string_view name_or_letter);

// Stores a value in the draft of a description; on error the draft is unchanged. file: the file in
// which an option about the training was read. Errors: kInvalid, with what was expected but not
// where.
struct Draft;
Result<Unit> StoreOption(const OptionInfo& option, std::string_view value, std::string_view file,
                         Draft& draft);

}  // namespace carma::task
