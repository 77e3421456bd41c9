// The text of a shell script with the position up to which it was read, and the parts of its words.
// Only for shell.cc.
#pragma once

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "estimate/recipe/shell.h"

namespace carma::estimate {

inline bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

inline bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The length of the name with which the text begins; 0 if there is none.
inline std::size_t NameLength(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  if (text.empty() || !IsNameStart(text.front())) return 0;
  return std::min(text.find_first_not_of(kLetters), text.size());
}

// The parts of "NAME=value" or "NAME+=value". Empty if the word is not an assignment.
struct Assignment {
  std::string name;
  std::string value;
  bool adds = false;
};
inline std::optional<Assignment> AssignmentOf(std::string_view word) {
  const std::size_t length = NameLength(word);
  if (length == 0) return std::nullopt;
  std::string_view rest = word.substr(length);
  const bool adds = rest.starts_with('+');
  if (adds) rest.remove_prefix(1);
  if (!rest.starts_with('=')) return std::nullopt;
  return Assignment{std::string(word.substr(0, length)), std::string(rest.substr(1)), adds};
}

// The words into which one word of the text expands: none, one or several.
class Fields {
 public:
  void Append(std::string_view text, bool known = true) {
    open_ = true;
    current_.text += text;
    current_.known = current_.known && known;
  }
  void Append(const ShellWord& word) { Append(word.text, word.known); }
  void Split() {
    if (open_) done_.push_back(std::exchange(current_, {}));
    open_ = false;
  }
  // Splits the text at blanks and appends its words, as for an unquoted variable.
  void AppendSplit(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    while (!text.empty()) {
      const std::size_t begin = text.find_first_not_of(kBlanks);
      if (begin != 0) Split();
      if (begin == std::string_view::npos) return;
      const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
      Append(text.substr(begin, end - begin));
      text.remove_prefix(end);
    }
  }
  const std::string& Current() const { return current_.text; }
  std::vector<ShellWord> Take() {
    Split();
    return std::move(done_);
  }

 private:
  std::vector<ShellWord> done_;
  ShellWord current_;
  bool open_ = false;  // also true for an empty word ('')
};

// A script's text and the position up to which it was read.
struct ShellText {
  std::string_view text_;
  std::string file_;  // read by `source`; empty: the script itself
  int line_ = 1;
  std::size_t at_ = 0;

  static bool IsOneOf(char c, std::string_view set) { return set.contains(c); }
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Continues() const { return Peek() == '\\' && Peek(1) == '\n'; }
  void Skip(std::size_t count) {
    for (; count > 0 && !AtEnd(); --count) line_ += text_[at_++] == '\n' ? 1 : 0;
  }
  void SkipLine() { at_ = std::min(text_.find('\n', at_), text_.size()); }
  void SkipBlanks() {
    while (Peek() == ' ' || Peek() == '\t' || Continues()) Skip(Continues() ? 2 : 1);
  }

  void SkipBackticks() {
    const std::size_t end = std::min(text_.find('`', at_ + 1), text_.size());
    Skip(end + 1 - at_);
  }

  // Skips a command substitution or an arithmetic expansion, starting at "$(".
  void SkipParentheses() {
    Skip(1);
    int depth = 0;
    char quote = '\0';
    do {
      const char c = Peek();
      if (c == '\\') {
        Skip(1);
      } else if (quote != '\0') {
        if (c == quote) quote = '\0';
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '(') {
        ++depth;
      } else if (c == ')') {
        --depth;
      }
      Skip(1);
    } while (!AtEnd() && depth > 0);
  }
};

}  // namespace carma::estimate
