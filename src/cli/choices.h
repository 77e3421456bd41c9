// Words that an option or an argument takes, for completion.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carma::cli {

struct Choices {
  std::vector<std::string> words;  // empty: something else is meant, a file or a number
  bool list = false;               // several may stand between commas
};

// A row of a program's table of them.
struct ChoiceRow {
  std::string_view verb;  // empty: any
  std::string_view option;
  bool list;
  std::vector<std::string> (*words)();
};
// The row of that verb and option; no words where there is none.
Choices FindChoices(std::span<const ChoiceRow> rows, std::string_view verb,
                    std::string_view option);

}  // namespace carma::cli
