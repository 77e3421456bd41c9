// Finds non-ASCII letters in a TOML text at places where toml++ 3.3 cannot handle them.
#pragma once

#include <optional>
#include <string_view>

namespace carma::config {

// TOML allows non-ASCII letters only in quotes and comments, and toml++ 3.3 relies on this.
// Anywhere else they make it reach code that it declares unreachable. This reader understands the
// forms that CARMA's keys have (a text, a list of texts, a bare word), and trusts nothing after the
// first value of another form. Returns the line of the first non-ASCII letter outside trusted text.
// Empty if the text is safe to parse.
std::optional<unsigned> LineOfStrayLetter(std::string_view text);

}  // namespace carma::config
