// Sets keys in the text of a configuration file and preserves all other lines and comments.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace carma::cli {

// A two-part dotted name, and the value as written in the file: {"daemon.http_port", "8080"}.
using ConfigValue = std::pair<std::string, std::string>;

// Replaces the value of an existing key and keeps a comment on the same line. Uncomments a
// commented-out key (`#http_port = false`). Adds any other key below its section's header, and a
// missing section at the end. Returns kInvalid if the old value spans several lines.
Result<std::string> WithValues(std::string_view text, const std::vector<ConfigValue>& values);

}  // namespace carma::cli
