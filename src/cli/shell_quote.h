// Words for scripts that a shell will read.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

// The text as one word of a POSIX shell, taken literally: plain where that is safe, else in '…'.
std::string ShellQuote(std::string_view text);

}  // namespace carma::cli
