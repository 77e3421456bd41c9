// "  Label        text" lines.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

// Entries with an empty text are left out; an empty label continues the entry above.
class Facts {
 public:
  void Add(std::string_view label, const std::string& text);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The column where texts begin.
inline constexpr std::size_t kFactsIndent = 16;

}  // namespace carma::cli
