#include "estimate/recipe/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace carma::estimate {
namespace {

constexpr std::size_t kMaxKeyBytes = 200;  // for each level of nesting

std::string Below(const std::string& prefix, std::string_view key) {
  key = key.substr(0, kMaxKeyBytes);
  return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
}

// Like EndOfQuoted(), but returns the end of `text` if the quote is not closed.
std::size_t SkipQuoted(std::string_view text, std::size_t at) {
  return std::min(EndOfQuoted(text, at), text.size());
}

// A quote starts a quoted scalar only after one of these characters.
constexpr std::string_view kBeforeQuote = " \t[{,:\n";

// Returns true if the character at `at` is a quote that starts a quoted scalar.
bool OpensQuote(std::string_view text, std::size_t at) {
  if (text[at] != '"' && text[at] != '\'') return false;
  return at == 0 || kBeforeQuote.contains(text[at - 1]);
}

std::string_view WithoutComment(std::string_view line) {
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (OpensQuote(line, at)) {
      at = SkipQuoted(line, at) - 1;
    } else if (line[at] == '#' && (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t')) {
      return line.substr(0, at);
    }
  }
  return line;
}

// Counts the open brackets in consecutive pieces of text.
class Brackets {
 public:
  void Add(std::string_view text) {
    for (const char c : text) {
      if (quote_ != '\0') {
        if (before_ == '\\' && quote_ == '"') {
          before_ = '\0';
          continue;
        }
        if (c == quote_) quote_ = '\0';
      } else if ((c == '"' || c == '\'') && kBeforeQuote.contains(before_)) {
        quote_ = c;
      } else if (c == '[' || c == '{') {
        ++depth_;
      } else if (c == ']' || c == '}') {
        --depth_;
      }
      before_ = c;
    }
  }
  bool Closed() const { return depth_ <= 0 && quote_ == '\0'; }

 private:
  int depth_ = 0;
  char quote_ = '\0';
  char before_ = ' ';
};

struct Line {
  std::size_t indent = 0;
  std::string_view text;  // without indentation, comment or trailing blanks
  int number = 0;
};

class YamlReader {
 public:
  YamlReader(std::string_view text, std::string_view where) : where_(where) { Split(text); }

  Result<std::vector<Setting>> Read() {
    std::size_t at = 0;
    while (at < lines_.size() && !mistake_) {
      const std::size_t before = at;
      at = ReadBlock("", at, lines_[at].indent, 0);
      if (at == before) ++at;
    }
    if (mistake_) return std::unexpected(*mistake_);
    return std::move(settings_);
  }

 private:
  void Split(std::string_view text) {
    int number = 0;
    bool begun = false;
    for (const std::string_view raw : base::Split(text, '\n')) {
      ++number;
      if (raw.starts_with("---") || raw.starts_with("%")) {
        if (begun && raw.starts_with("---")) break;
        continue;
      }
      const std::size_t indent = std::min(raw.find_first_not_of(' '), raw.size());
      const std::string_view content = base::Trim(WithoutComment(raw.substr(indent)));
      if (content.empty()) continue;
      begun = true;
      if (raw[indent] == '\t') return Complain(number, "expected spaces for indentation, not tabs");
      lines_.push_back({indent, content, number});
    }
  }

  void Complain(int line, std::string_view what) {
    if (!mistake_)
      mistake_ = base::Error{ErrorCode::kInvalid, fmt::format("{}:{}: {}", where_, line, what)};
  }

  void Emit(std::string key, std::string value, int line) {
    if (settings_.size() >= kMaxSettings)
      return Complain(line, fmt::format("expected at most {} settings", kMaxSettings));
    settings_.push_back({std::move(key), std::move(value), fmt::format("{}:{}", where_, line)});
  }

  static bool IsItem(std::string_view text) { return text == "-" || text.starts_with("- "); }

  // The position of the colon in "key: value"; npos if the text is not a mapping.
  static std::size_t KeyEnd(std::string_view text) {
    if (text.empty() || text[0] == '[' || text[0] == '{') return std::string_view::npos;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (OpensQuote(text, at)) {
        at = SkipQuoted(text, at) - 1;
      } else if (text[at] == ':' && (at + 1 == text.size() || text[at + 1] == ' ')) {
        return at;
      }
    }
    return std::string_view::npos;
  }

  // The value without the anchors and tags in front of it.
  static std::string_view Value(std::string_view text) {
    text = base::Trim(text);
    while (text.starts_with('&') || text.starts_with('!')) {
      const std::size_t end = text.find(' ');
      text = end == std::string_view::npos ? "" : base::Trim(text.substr(end));
    }
    return text;
  }

  // Reads all lines with at least this indentation. Returns the index of the line after them.
  std::size_t ReadBlock(const std::string& prefix, std::size_t at, std::size_t indent, int depth) {
    if (depth > kMaxSettingDepth) {
      Complain(lines_[at].number,
               fmt::format("expected at most {} levels of nesting", kMaxSettingDepth));
      return lines_.size();
    }
    while (at < lines_.size() && lines_[at].indent >= indent && !mistake_) {
      if (lines_[at].indent > indent) {
        ++at;  // the scalar continues on this line
      } else if (IsItem(lines_[at].text)) {
        at = ReadList(prefix, at, indent, depth);
      } else if (lines_[at].text[0] == '{' || lines_[at].text[0] == '[') {
        at = ReadFlow(prefix, at, lines_[at].text, depth);
      } else {
        at = ReadEntry(prefix, at, depth);
      }
    }
    return at;
  }

  // Skips the lines after line `at` that are indented more deeply. Returns the index of the next
  // line.
  std::size_t SkipDeeper(std::size_t at, std::size_t indent) const {
    for (++at; at < lines_.size() && lines_[at].indent > indent;) ++at;
    return at;
  }

  std::size_t ReadEntry(const std::string& prefix, std::size_t at, int depth) {
    const Line line = lines_[at];
    const std::size_t end = KeyEnd(line.text);
    if (end == std::string_view::npos) return at + 1;
    const std::string key = Below(prefix, Unquoted(line.text.substr(0, end)));
    const std::string_view value = Value(line.text.substr(end + 1));
    if (value.starts_with('|') || value.starts_with('>')) return SkipDeeper(at, line.indent);
    if (value.starts_with('*')) return at + 1;
    if (value.starts_with('[') || value.starts_with('{'))
      return ReadFlow(key, at, value, depth + 1);
    if (!value.empty()) {
      Emit(key, Unquoted(value), line.number);
      return at + 1;
    }
    if (at + 1 == lines_.size()) return at + 1;
    const Line& next = lines_[at + 1];
    if (next.indent > line.indent) return ReadBlock(key, at + 1, next.indent, depth + 1);
    // A list may have the same indentation as its key.
    if (next.indent == line.indent && IsItem(next.text))
      return ReadList(key, at + 1, line.indent, depth + 1);
    return at + 1;
  }

  std::size_t ReadList(const std::string& prefix, std::size_t at, std::size_t indent, int depth) {
    std::vector<std::string> scalars;
    const int first = lines_[at].number;
    for (std::size_t item = 0;
         at < lines_.size() && lines_[at].indent == indent && IsItem(lines_[at].text) && !mistake_;
         ++item) {
      Line& line = lines_[at];
      const std::string below = Below(prefix, std::to_string(item));
      std::string_view rest = line.text.substr(1);
      const std::size_t blanks = std::min(rest.find_first_not_of(' '), rest.size());
      rest.remove_prefix(blanks);
      if (rest.empty()) {
        const bool deeper = at + 1 < lines_.size() && lines_[at + 1].indent > indent;
        at = deeper ? ReadBlock(below, at + 1, lines_[at + 1].indent, depth + 1) : at + 1;
      } else if (rest[0] == '[' || rest[0] == '{') {
        at = ReadFlow(below, at, rest, depth + 1);
      } else if (IsItem(rest) || KeyEnd(rest) != std::string_view::npos) {
        // In "- key: value", a block begins after the dash.
        line.indent += 1 + blanks;
        line.text = rest;
        at = ReadBlock(below, at, line.indent, depth + 1);
      } else {
        scalars.push_back(Unquoted(Value(rest)));
        at = SkipDeeper(at, indent);
      }
    }
    if (!scalars.empty()) Emit(prefix, base::Join(scalars, ","), first);
    return at;
  }

  // ---- in brackets ----

  // value: the text of line `at`, starting at the bracket. Returns the index of the line after the
  // value.
  std::size_t ReadFlow(const std::string& prefix, std::size_t at, std::string_view value,
                       int depth) {
    const int first = lines_[at].number;
    std::string text(value);
    flow_line_ = first;
    Brackets brackets;
    brackets.Add(text);
    while (!brackets.Closed()) {
      if (++at == lines_.size()) {
        Complain(first, "brackets or quotes are not closed");
        return lines_.size();
      }
      text += '\n';
      text += lines_[at].text;
      brackets.Add("\n");
      brackets.Add(lines_[at].text);
    }
    std::size_t from = 0;
    ReadFlowValue(prefix, text, from, depth);
    return at + 1;
  }

  static void SkipSpace(std::string_view text, std::size_t& at) {
    while (at < text.size() && std::string_view(" \t\n,").contains(text[at])) ++at;
  }

  // Reads a scalar up to one of the characters in `ends`.
  static std::string_view FlowScalar(std::string_view text, std::size_t& at,
                                     std::string_view ends) {
    const std::size_t from = at;
    while (at < text.size()) {
      if (OpensQuote(text, at)) {
        at = SkipQuoted(text, at);
      } else if (ends.contains(text[at])) {
        break;
      } else {
        ++at;
      }
    }
    return base::Trim(text.substr(from, at - from));
  }

  void ReadFlowValue(const std::string& prefix, std::string_view text, std::size_t& at, int depth) {
    if (depth > kMaxSettingDepth)
      return Complain(flow_line_,
                      fmt::format("expected at most {} levels of nesting", kMaxSettingDepth));
    if (text[at] == '{') return ReadFlowMapping(prefix, text, at, depth);
    if (text[at] == '[') return ReadFlowList(prefix, text, at, depth);
    const std::string value = Unquoted(FlowScalar(text, at, ",]}\n"));
    if (!value.empty()) Emit(prefix, value, flow_line_);
  }

  void ReadFlowMapping(const std::string& prefix, std::string_view text, std::size_t& at,
                       int depth) {
    for (++at; !mistake_;) {
      SkipSpace(text, at);
      if (at >= text.size()) return;
      if (text[at] == '}' || text[at] == ']') {
        ++at;
        return;
      }
      const std::size_t before = at;
      const std::string key = Below(prefix, Unquoted(FlowScalar(text, at, ":,}]")));
      if (at < text.size() && text[at] == ':') {
        ++at;
        while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
        if (at < text.size()) ReadFlowValue(key, text, at, depth + 1);
      }
      if (at == before) ++at;
    }
  }

  void ReadFlowList(const std::string& prefix, std::string_view text, std::size_t& at, int depth) {
    std::vector<std::string> scalars;
    std::size_t item = 0;
    for (++at; !mistake_; ++item) {
      SkipSpace(text, at);
      if (at >= text.size()) break;
      if (text[at] == ']' || text[at] == '}') {
        ++at;
        break;
      }
      const std::size_t before = at;
      if (text[at] == '[' || text[at] == '{') {
        ReadFlowValue(Below(prefix, std::to_string(item)), text, at, depth + 1);
      } else {
        scalars.push_back(Unquoted(FlowScalar(text, at, ",]}\n")));
      }
      if (at == before) ++at;
    }
    if (!scalars.empty()) Emit(prefix, base::Join(scalars, ","), flow_line_);
  }

  std::string_view where_;
  std::vector<Line> lines_;
  int flow_line_ = 0;
  std::vector<Setting> settings_;
  std::optional<base::Error> mistake_;
};

// ---- JSON ----

std::string ScalarText(const base::Json& json) {
  return json.is_string() ? json.get<std::string>() : json.is_null() ? "null" : json.dump();
}

class JsonFlattener {
 public:
  explicit JsonFlattener(std::string_view where) : where_(where) {}
  bool Flatten(const std::string& key, const base::Json& json, int depth) {
    if (depth > kMaxSettingDepth || settings_.size() >= kMaxSettings) return false;
    if (json.is_object()) {
      return std::ranges::all_of(json.items(), [&](const auto& each) {
        return Flatten(Below(key, each.key()), each.value(), depth + 1);
      });
    }
    if (!json.is_array()) {
      settings_.push_back({key, ScalarText(json), std::string(where_)});
      return true;
    }
    std::vector<std::string> scalars;
    for (std::size_t i = 0; i < json.size(); ++i) {
      if (!json[i].is_structured()) {
        scalars.push_back(ScalarText(json[i]));
      } else if (!Flatten(Below(key, std::to_string(i)), json[i], depth + 1)) {
        return false;
      }
    }
    if (!scalars.empty()) settings_.push_back({key, base::Join(scalars, ","), std::string(where_)});
    return true;
  }
  std::vector<Setting> Take() { return std::move(settings_); }

 private:
  std::string_view where_;
  std::vector<Setting> settings_;
};

}  // namespace

std::size_t EndOfQuoted(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

std::string Unquoted(std::string_view text) {
  text = base::Trim(text);
  if (text.size() < 2 || text.front() != text.back() || (text[0] != '"' && text[0] != '\''))
    return std::string(text);
  const char quote = text[0];
  text = text.substr(1, text.size() - 2);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\' && i + 1 < text.size()) ++i;
    if (quote == '\'' && text[i] == '\'' && i + 1 < text.size() && text[i + 1] == '\'') ++i;
    plain += text[i];
  }
  return plain;
}

Result<std::vector<Setting>> ReadYaml(std::string_view text, std::string_view where) {
  return YamlReader(text, where).Read();
}

Result<std::vector<Setting>> ReadJsonSettings(std::string_view text, std::string_view where) {
  const Result<base::Json> json = base::ParseJson(text);
  if (!json) return base::Wrap(json.error(), where);
  if (!json->is_object()) return Invalid("{}: expected an object", where);
  JsonFlattener flattener(where);
  if (!flattener.Flatten("", *json, 0)) {
    return Invalid("{}: expected at most {} settings and {} levels of nesting", where, kMaxSettings,
                   kMaxSettingDepth);
  }
  return flattener.Take();
}

}  // namespace carma::estimate
