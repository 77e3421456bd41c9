// A TOML text as a flat list of dotted names with values, each with its line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::config {

struct Entry {
  std::string name;   // "policy.sm_cap"
  std::string text;   // the value; items of a list are separated by commas
  unsigned form = 0;  // of Form in keys.h; 0: of a kind that no key takes (a date, a mixed list)
  unsigned line = 0;
  std::vector<std::string> path;   // the parts of the name, which may hold dots themselves
  std::vector<std::string> items;  // of a list of texts, numbers and truth values, as text each
};

// Errors: kInvalid "path:line: what is wrong". `path` is for messages only.
base::Result<std::vector<Entry>> ParseToml(const std::string& path, std::string_view text);

}  // namespace carma::config
