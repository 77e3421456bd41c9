// "  Label        text" lines.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

// Empty texts are left out; an empty label continues the one above.
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
