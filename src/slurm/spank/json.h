// As much of JSON as the plug-in needs: texts to send, answers of carmad to read. Bounded in size,
// depth and number of values, whatever comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carma::slurm {

// With its quotes. Bytes that are no ASCII become '?'.
std::string Quoted(std::string_view text);

// The texts, numbers and words of a document, by their places: "error/message". Items of lists
// have their index as name: "leases/0/id".
class Document {
 public:
  // False: it is no JSON, or too large, deep or long.
  bool Parse(std::string_view text);
  std::optional<std::string> Text(std::string_view place) const;
  std::optional<std::int64_t> Number(std::string_view place) const;  // a whole one, not negative
  // Texts that stand directly in the object at that place, by name.
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
