#include "config/toml_letters.h"

#include <algorithm>
#include <string>

namespace carma::config {
namespace {

enum class Place {
  kKey,     // from the start of a line
  kValue,   // after '='
  kList,    // between the '[' and ']' of a value
  kAfter,   // after a value in quotes or brackets
  kBare,    // in a number or bare word
  kBeyond,  // in a form that no key accepts; all text after it is unsafe
};

bool IsQuote(char c) {
  return c == '"' || c == '\'';
}
bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Returns the state after one more character outside quotes and comments.
Place Next(Place place, char c) {
  switch (place) {
    case Place::kKey:
      return c == '=' ? Place::kValue : IsQuote(c) ? Place::kBeyond : Place::kKey;
    case Place::kValue:
      if (c == '\n') return Place::kKey;
      return IsBlank(c) ? Place::kValue : c == '[' ? Place::kList : Place::kBare;
    case Place::kList:
      if (c == ']') return Place::kAfter;
      return IsBlank(c) || c == '\n' || c == ',' ? Place::kList : Place::kBeyond;
    case Place::kAfter:
      if (c == '\n') return Place::kKey;
      return IsBlank(c) ? Place::kAfter : Place::kBeyond;
    case Place::kBare:
      if (c == '\n') return Place::kKey;
      return IsQuote(c) || c == '[' || c == '{' || c == '=' ? Place::kBeyond : Place::kBare;
    case Place::kBeyond:
      break;
  }
  return Place::kBeyond;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<unsigned> LineOfStrayLetter() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) >= 0x80) return line_;
      if (c == '#' && place_ != Place::kBeyond) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (IsQuote(c) && (place_ == Place::kValue || place_ == Place::kList)) {
        TakeQuoted(c);
      } else {
        place_ = Next(place_, c);
        Step();
      }
    }
    return std::nullopt;
  }

 private:
  void Step() {
    if (at_ < text_.size() && text_[at_] == '\n') ++line_;
    ++at_;
  }

  void TakeQuoted(char quote) {
    const std::string three(3, quote);
    const bool of_lines = text_.substr(at_).starts_with(three);
    for (int i = 0; i < (of_lines ? 3 : 1); ++i) Step();
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote && (!of_lines || text_.substr(at_).starts_with(three))) break;
      if (c == '\n' && !of_lines) break;
      if (c == '\\' && quote == '"') Step();
      Step();
    }
    const bool ended = at_ < text_.size() && text_[at_] == quote;
    // Up to two quotes before the closing quotes of a multi-line string belong to the string.
    for (int i = 0; i < (of_lines ? 5 : 1) && at_ < text_.size() && text_[at_] == quote; ++i)
      Step();
    place_ = !ended ? Place::kBeyond : place_ == Place::kList ? Place::kList : Place::kAfter;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
  Place place_ = Place::kKey;
};

}  // namespace

std::optional<unsigned> LineOfStrayLetter(std::string_view text) {
  return Reader(text).LineOfStrayLetter();
}

}  // namespace carma::config
