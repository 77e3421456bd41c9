// Reads values from kernel files with one named value per line, such as /proc/PID/status.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"
#include "base/text.h"

namespace carma::base {

// Returns the rest of the line that begins with the name, without surrounding whitespace. Empty if
// there is no such file or line.
inline std::string NamedLine(const std::string& file, std::string_view name) {
  constexpr std::size_t kMost = 1 << 20;
  const std::string text = ReadFile(file, kMost).value_or("");
  for (const std::string_view line : Split(text, '\n')) {
    if (line.starts_with(name)) return std::string(Trim(line.substr(name.size())));
  }
  return "";
}

}  // namespace carma::base
