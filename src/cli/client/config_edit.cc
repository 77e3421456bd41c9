#include "cli/client/config_edit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace carma::cli {
namespace {

using Lines = std::vector<std::string>;

bool IsTitle(std::string_view line, std::string_view section) {
  return base::Trim(line).starts_with(fmt::format("[{}]", section));
}

// The lines of a section, without its header.
struct Span {
  std::size_t first = 0;
  std::size_t last = 0;  // one past the last line
};

// Finds the section, or adds it if it is missing.
Span SectionOf(Lines& lines, std::string_view section) {
  auto title =
      std::ranges::find_if(lines, [&](const std::string& line) { return IsTitle(line, section); });
  if (title == lines.end()) {
    if (!lines.empty() && !base::Trim(lines.back()).empty()) lines.emplace_back();
    lines.push_back(fmt::format("[{}]", section));
    return {lines.size(), lines.size()};
  }
  const auto next = std::find_if(title + 1, lines.end(), [](const std::string& line) {
    return base::Trim(line).starts_with('[');
  });
  return {static_cast<std::size_t>(title + 1 - lines.begin()),
          static_cast<std::size_t>(next - lines.begin())};
}

// Returns the key's line in the span, or the span's end if there is none. With `comment`, looks
// only at commented-out lines.
std::size_t Find(const Lines& lines, Span span, std::string_view key, bool comment) {
  std::size_t at = span.first;
  for (; at < span.last; ++at) {
    std::string_view line = base::Trim(lines[at]);
    if (comment != line.starts_with('#')) continue;
    if (comment) line = base::Trim(line.substr(1));
    if (line.starts_with(key) && base::Trim(line.substr(key.size())).starts_with('=')) break;
  }
  return at;
}

// Returns the first line above all section headers that sets a key of this section ("policy.order =
// …"), or the number of lines if there is none. TOML does not allow such a line together with a
// header for the section.
std::size_t FindDotted(const Lines& lines, std::string_view section) {
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const std::string_view line = base::Trim(lines[at]);
    if (line.starts_with('[')) break;
    if (line.starts_with(fmt::format("{}.", section))) return at;
  }
  return lines.size();
}

// The comment after the value, with the space before it; empty if there is none.
std::string_view CommentOf(std::string_view line) {
  char quote = 0;  // the quote character of the current string; 0 outside strings
  for (std::size_t at = line.find('='); at < line.size(); ++at) {
    const char c = line[at];
    if (quote == '"' && c == '\\') {
      ++at;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return line.substr(line.find_last_not_of(" \t", at - 1) + 1);
    }
  }
  return "";
}

// True if the value continues on the next line, which only lists can do.
bool EndsElsewhere(std::string_view line) {
  line.remove_suffix(CommentOf(line).size());
  const std::string_view value = base::Trim(line.substr(line.find('=') + 1));
  return value.starts_with('[') && value.find(']') == std::string_view::npos;
}

}  // namespace

Result<std::string> WithValues(std::string_view text, const std::vector<ConfigValue>& values) {
  Lines lines;
  for (const std::string_view line : base::Split(text, '\n')) lines.emplace_back(line);
  if (lines.back().empty()) lines.pop_back();
  for (const auto& [name, value] : values) {
    const std::size_t dot = name.find('.');
    const std::string section = name.substr(0, dot);
    const std::size_t dotted = FindDotted(lines, section);
    const bool titled = dotted == lines.size();
    const std::string key = titled ? name.substr(dot + 1) : name;
    const std::string line = fmt::format("{} = {}", key, value);
    const Span span = titled ? SectionOf(lines, section) : Span{dotted, lines.size()};
    std::size_t at = Find(lines, span, key, false);
    if (at == span.last) at = Find(lines, span, key, true);
    if (at == span.last) {
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(span.first), line);
      continue;
    }
    if (EndsElsewhere(lines[at]))
      return Invalid("line {}: {} spans several lines; change it by hand", at + 1, name);
    lines[at] = line + std::string(CommentOf(lines[at]));
  }
  return base::Join(lines, "\n") + "\n";
}

}  // namespace carma::cli
