// Finds non-ASCII characters in TOML text at places where toml++ 3.3 cannot handle them.
#pragma once

#include <optional>
#include <string_view>

namespace carma::config {

// TOML allows non-ASCII characters only in quotes and comments. Anywhere else, they make toml++ 3.3
// reach code that it declares unreachable. This check handles the forms of values that CARMA's keys
// accept (a string, a list of strings, a bare word). All text after the first value in any other
// form counts as unsafe. Returns the line of the first non-ASCII character in an unsafe place.
// Empty if the text is safe to parse.
std::optional<unsigned> LineOfStrayLetter(std::string_view text);

}  // namespace carma::config
