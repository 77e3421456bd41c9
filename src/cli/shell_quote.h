// Quotes words for shell scripts.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

// Writes the text as one literal POSIX shell word: unquoted if that is safe, else in '…'.
std::string ShellQuote(std::string_view text);

}  // namespace carma::cli
