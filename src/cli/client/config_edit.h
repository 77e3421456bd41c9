// Keys set in the text of a configuration file, whose other lines and comments stay as they are.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace carma::cli {

// A dotted name of two parts and the value as the file writes it: {"daemon.http_port", "8080"}.
using ConfigValue = std::pair<std::string, std::string>;

// A key that the file has in its section is given the new value in its place; one that stands there
// as a comment
// (`#http_port = false`) becomes a key; another follows its section's title, and a section that is
// missing is added. Errors: kInvalid: the old value goes over several lines.
base::Result<std::string> WithValues(std::string_view text, const std::vector<ConfigValue>& values);

}  // namespace carma::cli
