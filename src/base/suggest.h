// The word that somebody may have meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carma::base {

// The known word that differs least, by at most `near` letters added, left out, replaced or
// swapped, and by less than half of it. Empty: none is near.
std::optional<std::string> DidYouMean(std::string_view word, const std::vector<std::string>& known,
                                      std::size_t near);
// "" or ", did you mean lr?", of words with at most 2 wrong letters.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace carma::base
