#include "estimate/recipe/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"

namespace carma::estimate {
namespace {

constexpr std::size_t kMaxKeyBytes = 400;

bool IsQuote(char c) {
  return c == '"' || c == '\'';
}

// Calls `visit` with each character outside quotes and its position until `visit` returns false.
template <class Visit>
void VisitPlain(std::string_view text, Visit visit) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (IsQuote(text[i])) {
      const std::size_t end = EndOfQuoted(text, i);
      if (end == std::string_view::npos) return;
      i = end - 1;
    } else if (!visit(text[i], i)) {
      return;
    }
  }
}

std::string_view WithoutComment(std::string_view line) {
  std::size_t end = line.size();
  VisitPlain(line, [&](char c, std::size_t at) {
    if (c == '#') end = at;
    return c != '#';
  });
  return base::Trim(line.substr(0, end));
}

// The number of opening brackets minus the number of closing brackets.
int Depth(std::string_view text) {
  int depth = 0;
  VisitPlain(text, [&](char c, std::size_t) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    return true;
  });
  return depth;
}

// The position of the first `wanted` outside quotes, or npos.
std::size_t FindPlain(std::string_view text, char wanted) {
  std::size_t found = std::string_view::npos;
  VisitPlain(text, [&](char c, std::size_t at) {
    if (c == wanted) found = at;
    return c != wanted;
  });
  return found;
}

// Splits a list at the commas that are outside quotes and inner brackets.
std::vector<std::string_view> PartsOf(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  VisitPlain(list, [&](char c, std::size_t at) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(base::Trim(list.substr(begin, at - begin)));
      begin = at + 1;
    }
    return true;
  });
  parts.push_back(base::Trim(list.substr(begin)));
  std::erase_if(parts, [](std::string_view part) { return part.empty(); });
  return parts;
}

// Removes underscores from numbers, which TOML allows between digits.
std::string PlainScalar(std::string_view text) {
  if (!text.empty() && IsQuote(text.front())) return Unquoted(text);
  std::string plain(text);
  std::erase(plain, '_');
  return base::ParseDouble(plain) ? plain : std::string(text);
}

class TomlReader {
 public:
  explicit TomlReader(std::string_view where) : where_(where) {}

  Result<std::vector<Setting>> Read(std::string_view text) {
    std::string pending;  // a value whose brackets are still open
    int begun = 0;
    for (const std::string_view raw : base::Split(text, '\n')) {
      ++line_;
      if (SkipsLongText(raw)) continue;
      std::string_view line = WithoutComment(raw);
      if (line.empty()) continue;
      if (pending.empty()) begun = line_;
      pending += pending.empty() ? std::string(line) : " " + std::string(line);
      const bool is_table = pending.front() == '[';
      if (!is_table && Depth(pending) > 0) continue;
      std::swap(begun, line_);
      Take(pending);
      std::swap(begun, line_);
      pending.clear();
      if (mistake_) return std::unexpected(*mistake_);
    }
    if (!pending.empty() || long_quote_ != 0)
      Complain("the last list, table or string is not closed");
    if (mistake_) return std::unexpected(*mistake_);
    return std::move(settings_);
  }

 private:
  // Skips text in triple quotes, which may span lines. No training setting has this form.
  bool SkipsLongText(std::string_view line) {
    if (long_quote_ != 0) {
      if (line.contains(std::string(3, long_quote_))) long_quote_ = 0;
      return true;
    }
    for (const char quote : {'"', '\''}) {
      const std::string mark(3, quote);
      const std::size_t opened = line.find(mark);
      const std::size_t comment = line.find('#');
      if (opened == std::string_view::npos || comment < opened) continue;
      if (!line.substr(opened + 3).contains(mark)) long_quote_ = quote;
      return true;
    }
    return false;
  }

  void Take(std::string_view line) {
    if (line.front() == '[') return OpenTable(line);
    const std::size_t equals = FindPlain(line, '=');
    if (equals == std::string_view::npos || equals == 0)
      return Complain("expected [table], key = value or a comment");
    Add(Below(table_, line.substr(0, equals)), base::Trim(line.substr(equals + 1)));
  }

  void OpenTable(std::string_view line) {
    const bool of_list = line.starts_with("[[");
    const std::string_view closing = of_list ? "]]" : "]";
    if (!line.ends_with(closing)) return Complain("expected [table], key = value or a comment");
    line.remove_prefix(closing.size());
    line.remove_suffix(closing.size());
    table_ = Below("", line);
    if (of_list) table_ += fmt::format(".{}", tables_[table_]++);
  }

  void Add(const std::string& key, std::string_view value) {
    if (value.empty()) return Complain("expected a value");
    if (IsQuote(value.front()) && EndOfQuoted(value, 0) != value.size())
      return Complain("expected a properly quoted string");
    if (value.front() == '{' && value.back() == '}') {
      for (const std::string_view part : PartsOf(value.substr(1, value.size() - 2))) {
        const std::size_t equals = FindPlain(part, '=');
        if (equals == std::string_view::npos)
          return Complain("expected key = value in an inline table");
        Add(Below(key, part.substr(0, equals)), base::Trim(part.substr(equals + 1)));
      }
      return;
    }
    if (value.front() == '[' && value.back() == ']') {
      std::vector<std::string> scalars;
      for (const std::string_view part : PartsOf(value.substr(1, value.size() - 2)))
        scalars.push_back(PlainScalar(part));
      return Keep(key, base::Join(scalars, ","));
    }
    Keep(key, PlainScalar(value));
  }

  void Keep(const std::string& key, std::string value) {
    if (settings_.size() == kMaxSettings)
      return Complain(fmt::format("expected at most {} settings", kMaxSettings));
    settings_.push_back({key, std::move(value), fmt::format("{}:{}", where_, line_)});
  }

  static std::string Below(const std::string& table, std::string_view key) {
    std::vector<std::string> levels;
    if (!table.empty()) levels.push_back(table);
    std::size_t begin = 0;
    VisitPlain(key, [&](char c, std::size_t at) {
      if (c != '.') return true;
      levels.push_back(Unquoted(key.substr(begin, at - begin)));
      begin = at + 1;
      return true;
    });
    levels.push_back(Unquoted(key.substr(begin)));
    return base::Join(levels, ".").substr(0, kMaxKeyBytes);
  }

  void Complain(std::string_view expected) {
    if (mistake_) return;
    mistake_ = base::Error{ErrorCode::kInvalid, fmt::format("{}:{}: {}", where_, line_, expected)};
  }

  std::string_view where_;
  int line_ = 0;
  char long_quote_ = 0;  // quote character of an unclosed triple-quoted string
  std::string table_;
  std::map<std::string, int> tables_;  // number of tables in each array of tables
  std::vector<Setting> settings_;
  std::optional<base::Error> mistake_;
};

}  // namespace

Result<std::vector<Setting>> ReadToml(std::string_view text, std::string_view where) {
  return TomlReader(where).Read(text);
}

}  // namespace carma::estimate
