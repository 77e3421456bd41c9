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

// verb: "list", "trace info"; option: "--state", or empty for the verb's arguments.
Choices ChoicesOf(std::string_view verb, std::string_view option);

}  // namespace carma::cli
