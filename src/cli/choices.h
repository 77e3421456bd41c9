// The words that an option or argument accepts, for completion.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carma::cli {

struct Choices {
  std::vector<std::string> words;  // empty for values of another kind, such as files
  bool list = false;               // the value is a comma-separated list
};

template <class Entries>
std::vector<std::string> NamesOf(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

// A row of a program's table of choices.
struct ChoiceRow {
  std::string_view verb;  // empty for any
  std::string_view option;
  bool list;
  std::vector<std::string> (*words)() = nullptr;
  std::string_view fixed = {};  // comma-separated; replaces `words`
};
// Returns the choices for this verb and option; they have no words if no row matches.
Choices FindChoices(std::span<const ChoiceRow> rows, std::string_view verb,
                    std::string_view option);

}  // namespace carma::cli
