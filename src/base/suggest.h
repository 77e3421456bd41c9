// Suggests the word that the user probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// Returns the most similar known word; empty if none is similar. A word is similar if at most
// `near` of its characters, and at most half of them, are added, omitted, replaced or transposed.
std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near);
// Returns ", did you mean lr?" if a known word differs in at most 2 characters, else "".
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace carma::base
