// Where letters beyond ASCII may stand in a TOML text that toml++ 3.3 is to read.
#pragma once

#include <optional>
#include <string_view>

namespace carma::config {

// TOML allows them in quotes and comments only, and toml++ 3.3 relies on that: elsewhere they lead
// it into code that it declares unreachable. This reader follows the forms that our keys take (a
// text, a list of texts, a bare word) and trusts nothing after the first other form. Gives the line
// of the first such letter outside what it trusts; empty: the text is safe to parse.
std::optional<unsigned> LineOfStrayLetter(std::string_view text);

}  // namespace carma::config
