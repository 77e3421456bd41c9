// Reads TOML text as a flat list of dotted names, with their values and line numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::config {

struct Entry {
  std::string name;   // "policy.sm_cap"
  std::string text;   // the value; list items are separated by commas
  unsigned form = 0;  // a Form from keys.h; 0 for any other form (a date, a mixed list)
  unsigned line = 0;
  std::vector<std::string> path;   // the parts of the name, which may contain dots
  std::vector<std::string> items;  // list items, as text
};

// `path` is used only in messages. All errors are kInvalid "path:line: what is wrong".
Result<std::vector<Entry>> ParseToml(const std::string& path, std::string_view text);

}  // namespace carma::config
