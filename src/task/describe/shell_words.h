// Splits a line into words as a POSIX shell would, but expands nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::task {

// kWords: quotes, backslashes and comments (a '#' after a space) have their usual meaning;
// everything else is literal.
// kCommand: like kWords, but shell syntax is an error: an unquoted ; | & > or <, a ` or "$"
// expansion outside single quotes, or a leading VAR=value. Globs (*.csv) are allowed and left
// unexpanded.
enum class WordRules { kWords, kCommand };

// Returns kInvalid for an unclosed quote, a trailing backslash, or text that the rules reject.
Result<std::vector<std::string>> SplitShellWords(std::string_view line, WordRules rules);

// Returns true for a valid shell variable name: letters, digits and _, not beginning with a digit.
bool IsVariableName(std::string_view name);

}  // namespace carma::task
