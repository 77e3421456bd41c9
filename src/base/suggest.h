// Suggests the word that was probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// The most similar known word: at most `near` letters added, omitted, replaced or swapped, and less
// than half of it. Empty: none.
std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near);
// "" or ", did you mean lr?", for at most 2 wrong letters.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace carma::base
