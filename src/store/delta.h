// Stores text as its difference from similar text. The descriptions of a user's tasks contain
// nearly the same environment of several KiB, so 200 000 descriptions take little space when stored
// as differences.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace carma::store {

// The base text for computing differences.
class Template {
 public:
  explicit Template(std::string text);
  Template(const Template&) = delete;  // the index points into the text
  Template& operator=(const Template&) = delete;
  const std::string& text() const { return text_; }

  // Encodes `text` as a sequence of pieces of the template ("c<from>,<length>;") and new bytes
  // ("i<length>;<bytes>"). Apply() restores `text` exactly from the result, whatever its content.
  std::string Difference(std::string_view text) const;

 private:
  std::string text_;
  std::unordered_map<std::string_view, std::size_t> pieces_;  // text between commas -> first offset
};

// Restores the original text. Empty if `difference` is not a valid difference from `base`.
std::optional<std::string> Apply(std::string_view base, std::string_view difference);

}  // namespace carma::store
