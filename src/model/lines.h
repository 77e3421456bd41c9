// The lines of a text summary, with their place for errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::model {

inline constexpr std::size_t kMaxLines = 1'000'000;
inline constexpr std::size_t kMaxLineBytes = 64 << 10;

// A cursor over lines that are borrowed from the text. Line ends ("\n", "\r\n") are cut off.
class Lines {
 public:
  // Errors: kInvalid "path:line: …" for a NUL byte, lines beyond kMaxLineBytes, more than
  // kMaxLines.
  static base::Result<Lines> Split(std::string_view text, std::string_view path);

  std::size_t size() const { return lines_.size(); }
  bool AtEnd() const { return next_ == lines_.size(); }
  std::string_view Peek() const { return lines_[next_]; }               // not at the end
  std::string_view At(std::size_t line) const { return lines_[line]; }  // counted from 0
  std::string_view Take() { return lines_[next_++]; }                   // not at the end
  std::size_t next() const { return next_; }
  // kInvalid "path:line: what", the line being the one taken last.
  std::unexpected<base::Error> Fail(std::string_view what) const { return FailAt(next_, what); }
  // The same for a line counted from 1.
  std::unexpected<base::Error> FailAt(std::size_t line, std::string_view what) const;

 private:
  std::string path_;
  std::vector<std::string_view> lines_;
  std::size_t next_ = 0;
};

}  // namespace carma::model
