#include "task/progress/lines.h"

#include <algorithm>

namespace carma::task {

std::size_t OutputLines::TakePlain(std::string_view bytes) {
  if (escape_ != Escape::kNone) return 0;
  const auto plain = [](char c) { return static_cast<unsigned char>(c) >= ' '; };
  const auto end = std::ranges::find_if_not(bytes, plain);
  const auto length = static_cast<std::size_t>(end - bytes.begin());
  line_.append(bytes.substr(0, std::min(length, kMaxLine - line_.size())));
  return length;
}

bool OutputLines::Ends(char c) {
  if (escape_ != Escape::kNone) return EndsEscape(c);
  switch (c) {
    case '\x1b':
      escape_ = Escape::kBegun;
      return false;
    case '\n':
    case '\r':
    case '\b':
      return true;
    default:
      break;
  }
  const bool control = static_cast<unsigned char>(c) < ' ' && c != '\t';
  if (!control && line_.size() < kMaxLine) line_.push_back(c == '\t' ? ' ' : c);
  return false;
}

bool OutputLines::EndsEscape(char c) {
  // An escape sequence never extends past its line, so a stray ESC hides little text.
  if (c == '\n' || c == '\r') {
    escape_ = Escape::kNone;
    return true;
  }
  switch (escape_) {
    case Escape::kBegun:
      escape_ = c == '[' ? Escape::kControl : c == ']' ? Escape::kText : Escape::kNone;
      return false;
    case Escape::kControl:
      if (c < '@' || c > '~') return false;
      escape_ = Escape::kNone;
      return std::string_view("ABEFGHf").find(c) != std::string_view::npos;
    default:
      if (c == '\a') escape_ = Escape::kNone;
      if (c == '\x1b') escape_ = Escape::kBegun;
      return false;
  }
}

}  // namespace carma::task
