#include "model/lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace carma::model {

base::Result<Lines> Lines::Split(std::string_view text, std::string_view path) {
  Lines lines;
  lines.path_ = base::Printable(path);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t number = lines.lines_.size() + 1;
    if (number > kMaxLines) {
      return lines.FailAt(number, fmt::format("more than {} lines", kMaxLines));
    }
    if (line.size() > kMaxLineBytes) {
      return lines.FailAt(number, fmt::format("a line of {} bytes, at most {} are accepted",
                                              line.size(), kMaxLineBytes));
    }
    if (line.find('\0') != std::string_view::npos) {
      return lines.FailAt(number, "a NUL byte, expected text");
    }
    lines.lines_.push_back(line);
  }
  return lines;
}

std::unexpected<base::Error> Lines::FailAt(std::size_t line, std::string_view what) const {
  return base::Fail(base::ErrorCode::kInvalid,
                    fmt::format("{}:{}: {}", path_, std::max<std::size_t>(line, 1), what));
}

}  // namespace carma::model
