#include "config/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "config/keys.h"

// toml++ 3.3 reports an invalid table header only if NDEBUG is undefined and its assertions do
// nothing. With NDEBUG, it assumes that the header begins with a valid key.
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace carma::config {
namespace {

// ---- non-ASCII characters at places where toml++ 3.3 cannot handle them ----

enum class Place {
  kKey,     // from the start of a line
  kValue,   // after '='
  kList,    // between the '[' and ']' of a value
  kAfter,   // after a value in quotes or brackets
  kBare,    // in a number or bare word
  kBeyond,  // in a form that no key accepts; all text after it is unsafe
};

bool IsQuote(char c) {
  return c == '"' || c == '\'';
}
bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Returns the state after one more character outside quotes and comments.
Place Next(Place place, char c) {
  switch (place) {
    case Place::kKey:
      return c == '=' ? Place::kValue : IsQuote(c) ? Place::kBeyond : Place::kKey;
    case Place::kValue:
      if (c == '\n') return Place::kKey;
      return IsBlank(c) ? Place::kValue : c == '[' ? Place::kList : Place::kBare;
    case Place::kList:
      if (c == ']') return Place::kAfter;
      return IsBlank(c) || c == '\n' || c == ',' ? Place::kList : Place::kBeyond;
    case Place::kAfter:
      if (c == '\n') return Place::kKey;
      return IsBlank(c) ? Place::kAfter : Place::kBeyond;
    case Place::kBare:
      if (c == '\n') return Place::kKey;
      return IsQuote(c) || c == '[' || c == '{' || c == '=' ? Place::kBeyond : Place::kBare;
    case Place::kBeyond:
      break;
  }
  return Place::kBeyond;
}

// TOML allows non-ASCII characters only in quotes and comments. Elsewhere, they make toml++ 3.3
// reach code that it declares unreachable, so they must be found before it parses the text. This
// class recognises the values that CARMA's keys accept: a string, a list of strings, a bare word.
// All text after any other value counts as unsafe. FirstLine() returns the line of the first unsafe
// non-ASCII character, if any.
class StrayLetters {
 public:
  explicit StrayLetters(std::string_view text) : text_(text) {}

  std::optional<unsigned> FirstLine() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) >= 0x80) return line_;
      if (c == '#' && place_ != Place::kBeyond) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (IsQuote(c) && (place_ == Place::kValue || place_ == Place::kList)) {
        TakeQuoted(c);
      } else {
        place_ = Next(place_, c);
        Step();
      }
    }
    return std::nullopt;
  }

 private:
  void Step() {
    if (at_ < text_.size() && text_[at_] == '\n') ++line_;
    ++at_;
  }

  void TakeQuoted(char quote) {
    const std::string three(3, quote);
    const bool of_lines = text_.substr(at_).starts_with(three);
    for (int i = 0; i < (of_lines ? 3 : 1); ++i) Step();
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote && (!of_lines || text_.substr(at_).starts_with(three))) break;
      if (c == '\n' && !of_lines) break;
      if (c == '\\' && quote == '"') Step();
      Step();
    }
    const bool ended = at_ < text_.size() && text_[at_] == quote;
    // Up to two quotes before the closing quotes of a multi-line string belong to the string.
    for (int i = 0; i < (of_lines ? 5 : 1) && at_ < text_.size() && text_[at_] == quote; ++i)
      Step();
    place_ = !ended ? Place::kBeyond : place_ == Place::kList ? Place::kList : Place::kAfter;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned line_ = 1;
  Place place_ = Place::kKey;
};

// ---- values ----

// A value's text and form. Form 0 means that no key accepts this type of value.
std::pair<std::string, unsigned> Scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return {text->get(), kText};
  if (const auto* whole = node.as_integer()) return {std::to_string(whole->get()), kNumber};
  if (const auto* number = node.as_floating_point()) {
    const std::string written = fmt::format("{}", number->get());
    // Keeps the ".0" of 1.0, which is not a whole number and must not be read as 1 MiB.
    return {written.find_first_not_of("-0123456789") == written.npos ? written + ".0" : written,
            kNumber};
  }
  if (const auto* flag = node.as_boolean()) return {flag->get() ? "true" : "false", kBool};
  return {};
}

// Only a list of numbers, or a list of strings without commas, can be written as one string. An
// empty list counts as both.
void FillList(const toml::array& list, Entry& entry) {
  unsigned forms = kTextList | kNumberList;
  for (const toml::node& item : list) {
    auto [text, form] = Scalar(item);
    if (form == 0) {
      entry.items.clear();
      return;
    }
    if (form != kText || text.find(',') != std::string::npos) forms &= ~kTextList;
    if (form != kNumber) forms &= ~kNumberList;
    entry.items.push_back(std::move(text));
  }
  if (forms == 0) return;
  entry.text = base::Join(entry.items, ",");
  entry.form = forms;
}

Entry ToEntry(std::vector<std::string> path, const toml::node& node) {
  Entry entry{.name = base::Join(path, "."), .line = node.source().begin.line};
  entry.path = std::move(path);
  if (const auto* list = node.as_array()) {
    FillList(*list, entry);
  } else {
    std::tie(entry.text, entry.form) = Scalar(node);
  }
  return entry;
}

bool IsSection(const std::string& name) {
  return std::ranges::any_of(AllKeys(),
                             [&](const Key& known) { return known.name.starts_with(name + "."); });
}

void Flatten(const toml::table& table, const std::vector<std::string>& above,
             std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    std::vector<std::string> path = above;
    path.emplace_back(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      Flatten(*inner, path, entries);
      continue;
    }
    // An empty section is an error only if its name is unknown.
    const bool empty_section = inner != nullptr && above.empty() && IsSection(path.front());
    if (!empty_section) entries.push_back(ToEntry(std::move(path), node));
  }
}

}  // namespace

Result<std::vector<Entry>> ParseToml(const std::string& path, std::string_view text) {
  // Skips a byte-order mark at the start of the file.
  const std::string_view body = text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
  if (const std::optional<unsigned> line = StrayLetters(body).FirstLine())
    return Invalid("{}:{}: non-ASCII character outside quotes and comments", path, *line);
  std::vector<Entry> entries;
  try {
    Flatten(toml::parse(body), {}, entries);
  } catch (const toml::parse_error& error) {
    return Invalid("{}:{}: {}", path, error.source().begin.line,
                   base::Printable(error.description(), 300));
  }
  // Restores the file's order so that its first error is reported first; toml++ sorts tables by
  // name.
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.line, std::string_view(a.name)) <
           std::pair(b.line, std::string_view(b.name));
  });
  return entries;
}

}  // namespace carma::config
