// Words that an option or an argument takes, for completion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carma::cli {

struct Choices {
  std::vector<std::string> words;  // empty: something else is meant, a file or a number
  bool list = false;               // several may stand between commas
};

// Whose numbers the arguments of a verb are.
enum class TaskNames {
  kNone,
  kOpen,  // the caller's tasks that have not ended
  kAll,   // his last ones, ended ones too
};

// verb: "list", "trace info"; option: "--state", or empty for the verb's arguments.
Choices ChoicesOf(std::string_view verb, std::string_view option);
// Of a verb that takes tasks: which of them are worth an offer.
TaskNames TasksWorthNaming(std::string_view verb);

}  // namespace carma::cli
