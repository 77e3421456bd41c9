// The JSON needed by the plug-in: writing texts, reading carmad's answers. Bounded in size, depth
// and number of values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::slurm {

// The text in quotes. Bytes that are not ASCII become '?'.
std::string Quoted(std::string_view text);

// The texts, numbers and words of a document, by path: "error/message". Items of lists
// have their index as name: "leases/0/id".
class Document {
 public:
  // False: not JSON, or too large or deep.
  bool Parse(std::string_view text);
  std::optional<std::string> Text(std::string_view place) const;
  std::optional<std::int64_t> Number(std::string_view place) const;  // a whole one, not negative
  // Texts directly in the object at that path, by name.
  std::vector<std::pair<std::string, std::string>> Texts(std::string_view place) const;

 private:
  enum class Kind { kText, kOther };
  struct Value {
    std::string place;
    Kind kind;
    std::string text;
  };
  bool ReadValue(const std::string& place, int depth);
  bool ReadObject(const std::string& place, int depth);
  bool ReadList(const std::string& place, int depth);
  bool ReadText(std::string& text);
  bool ReadEscape(std::string& text);
  bool ReadWord(std::string& word);
  void SkipBlanks();
  bool Take(char c);
  const Value* Find(std::string_view place) const;

  std::string_view rest_;
  std::vector<Value> values_;
};

}  // namespace carma::slurm
