// Stores a text as its difference from another. The descriptions of one user's tasks repeat the
// same environment of several KiB; stored as differences, 200 000 of them take little space.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace carma::store {

// The text that differences refer to.
class Template {
 public:
  explicit Template(std::string text);
  Template(const Template&) = delete;  // the index points into the text
  Template& operator=(const Template&) = delete;
  const std::string& text() const { return text_; }

  // `text` as pieces of the template ("c<from>,<length>;") and new bytes ("i<length>;<bytes>").
  // Apply() of the result gives `text` back, whatever the bytes.
  std::string Difference(std::string_view text) const;

 private:
  std::string text_;
  std::unordered_map<std::string_view, std::size_t> pieces_;  // between commas -> first place
};

// Empty: not a difference from this text.
std::optional<std::string> Apply(std::string_view base, std::string_view difference);

}  // namespace carma::store
