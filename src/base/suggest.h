// Suggests the word that the user probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// Returns the most similar known word; empty if none is similar. A word is similar if at most
// `near` letters, and fewer than half of its letters, are added, omitted, replaced or swapped.
std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near);
// Returns ", did you mean lr?" if at most 2 letters are wrong, else "".
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace carma::base
