// Finds letters beyond ASCII in a TOML text that toml++ 3.3 cannot handle.
#pragma once

#include <optional>
#include <string_view>

namespace carma::config {

// TOML allows letters beyond ASCII only in quotes and comments, and toml++ 3.3 relies on that:
// elsewhere they lead to code that it declares unreachable. This reader understands the forms of
// CARMA's keys (a text, a list of texts, a bare word) and trusts nothing after the first value of
// another form. Returns the line of the first such letter outside trusted text; empty if the text
// is safe to parse.
std::optional<unsigned> LineOfStrayLetter(std::string_view text);

}  // namespace carma::config
