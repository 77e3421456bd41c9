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

// Parses a target, which is a path with an optional query, such as
// "/v1/tasks?user=ann%20b&limit=5". A '+' in the query is decoded as a space. Returns kInvalid if
// the target is not an absolute path, or contains invalid escapes or NUL bytes.
Result<Target> ParseTarget(std::string_view target);

// Escapes a path segment or query value. All bytes except letters, digits and "-._~" are escaped.
std::string Escape(std::string_view text);

}  // namespace carma::api
