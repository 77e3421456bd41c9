// Targets of HTTP requests: percent encoding and the query part.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace carma::api {

struct Target {
  std::string path;                                        // decoded; starts with '/'
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order
};

// A target is a path with an optional query, such as "/v1/tasks?user=ann%20b&limit=5". A '+' in the
// query is a blank. Errors: kInvalid if the target is not an absolute path, or has broken escapes
// or NUL bytes.
Result<Target> ParseTarget(std::string_view target);

// One path piece or query value with every byte but letters, digits and "-._~" escaped.
std::string Escape(std::string_view text);

}  // namespace carma::api
