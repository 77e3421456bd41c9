// Splits a program's output into short, clean lines using a fixed amount of memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace carma::task {

class OutputLines {
 public:
  static constexpr std::size_t kMaxLine = 1024;  // the rest of a longer line is skipped

  // Calls take(line) for each line that `bytes` completes. Lines end at newlines, carriage returns,
  // backspaces and cursor movements. Escape sequences and other controls are dropped.
  template <class Take>
  void Feed(std::string_view bytes, Take take) {
    while (!bytes.empty()) {
      bytes.remove_prefix(TakePlain(bytes));
      if (bytes.empty()) return;
      if (Ends(bytes.front())) {
        if (!line_.empty()) take(std::string_view(line_));
        line_.clear();
      }
      bytes.remove_prefix(1);
    }
  }
  // The line that has not ended yet, such as a progress bar that the next bar will overwrite.
  std::string_view pending() const { return line_; }

 private:
  enum class Escape { kNone, kBegun, kControl, kText };
  // Appends the leading ordinary characters of `bytes` to the line and returns their number.
  std::size_t TakePlain(std::string_view bytes);
  // Returns true if the character ends the line. Otherwise adds it (a tab as a blank) unless it is
  // a control character or part of an escape sequence.
  bool Ends(char c);
  bool EndsEscape(char c);

  std::string line_;
  Escape escape_ = Escape::kNone;
};

}  // namespace carma::task
