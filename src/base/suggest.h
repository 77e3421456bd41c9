// Suggests the word that the user probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// Returns the most similar known word; empty if there is none. Similar means that at most `near`
// letters, and less than half of the word, are added, omitted, replaced or swapped.
std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near);
// Returns ", did you mean lr?" for at most 2 wrong letters, else "".
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace carma::base
