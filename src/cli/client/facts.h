// "  Label        text" lines.
#pragma once

#include <string>
#include <string_view>

namespace carma::cli {

// Empty texts are left out; an empty label goes on with the one above.
class Facts {
 public:
  void Add(std::string_view label, const std::string& text);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Where the texts begin.
inline constexpr std::size_t kFactsIndent = 16;

}  // namespace carma::cli
