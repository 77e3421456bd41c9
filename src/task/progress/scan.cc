#include "task/progress/scan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace carma::task {
namespace {

constexpr double kMostCount = 1e15;
constexpr double kMostSpanS = 1e9;

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The length of a time unit's name and its value in seconds; length 0 if there is no unit.
std::pair<std::size_t, double> TimeUnit(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1e-3}, {"us", 1e-6}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86'400}};
  for (const auto& [name, seconds] : kUnits) {
    const bool ends = text.size() <= name.size() || !IsLetter(text[name.size()]);
    if (text.starts_with(name) && ends) return {name.size(), seconds};
  }
  return {0, 0};
}

}  // namespace

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsLetter(char c) {
  return Lower(c) >= 'a' && Lower(c) <= 'z';
}
bool IsNameChar(char c) {
  return IsDigit(c) || IsLetter(c) || c == '_';
}

bool Scan::Skip(std::string_view word) {
  if (!text.substr(std::min(at, text.size())).starts_with(word)) return false;
  at += word.size();
  return true;
}

void Scan::SkipAny(std::string_view these, std::size_t most) {
  while (!done() && most-- > 0 && these.contains(text[at])) ++at;
}

std::string_view Scan::While(bool (*holds)(char)) {
  const std::size_t first = at;
  while (!done() && holds(text[at])) ++at;
  return text.substr(std::min(first, text.size()), at - first);
}

std::optional<double> Scan::Number() {
  const std::size_t first = at + (peek() == '-' ? 1 : 0);
  if (first >= text.size() || (!IsDigit(text[first]) && text[first] != '.')) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  at = static_cast<std::size_t>(end - text.data());
  return value;
}

std::optional<double> Scan::Count() {
  const std::size_t before = at;
  std::optional<double> value = peek() == '-' ? std::nullopt : Number();
  constexpr std::pair<char, double> kScales[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'G', 1e9}};
  for (const auto& [letter, scale] : kScales) {
    const bool alone = at + 1 >= text.size() || !IsNameChar(text[at + 1]);
    if (value && peek() == letter && alone) {
      ++at;
      value = *value * scale;
      break;
    }
  }
  if (value && *value <= kMostCount) return value;
  at = before;
  return std::nullopt;
}

std::optional<double> Scan::Span() {
  const std::size_t before = at;
  double sum = 0;
  bool any = false;
  for (int parts = 0; parts < 4; ++parts) {
    const std::size_t part = at;
    std::optional<double> number = peek() == '-' ? std::nullopt : Number();
    if (!number) break;
    if (peek() == ':') {
      double clock = *number;
      for (int fields = 0; fields < 2 && peek() == ':'; ++fields) {
        ++at;
        const std::optional<double> next = peek() == '-' ? std::nullopt : Number();
        if (!next || *next >= 60) {
          at = before;
          return std::nullopt;
        }
        clock = clock * 60 + *next;
      }
      sum += clock;
      any = true;
      break;
    }
    SkipAny(" ", 1);
    if (Skip("days,") || Skip("day,")) {
      sum += *number * 86'400;
      SkipAny(" ", 1);
      any = true;
      continue;
    }
    const auto [length, seconds] = TimeUnit(text.substr(std::min(at, text.size())));
    if (length == 0) {
      at = part;
      break;
    }
    at += length;
    sum += *number * seconds;
    any = true;
    SkipAny(" ", 1);
  }
  if (any && sum <= kMostSpanS) return sum;
  at = before;
  return std::nullopt;
}

bool IsWordAt(std::string_view text, std::string_view word, std::size_t at) {
  const std::size_t end = at + word.size();
  if (end > text.size() || (at > 0 && IsNameChar(text[at - 1]))) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (Lower(text[at + i]) != word[i]) return false;
  }
  return end == text.size() || (!IsLetter(text[end]) && text[end] != '_');
}

std::size_t FindWord(std::string_view text, std::string_view word, std::size_t from) {
  for (std::size_t i = from; i + word.size() <= text.size(); ++i) {
    // Compare the first letter inline before the call: nearly every position already fails there.
    if ((text[i] | ' ') == word.front() && IsWordAt(text, word, i)) return i;
  }
  return std::string_view::npos;
}

bool HasWord(std::string_view text, std::string_view word) {
  return FindWord(text, word) != std::string_view::npos;
}

std::optional<Scan> AfterWord(std::string_view line, std::string_view word) {
  const std::size_t at = FindWord(line, word);
  return at == line.npos ? std::nullopt : std::optional(Scan{line, at + word.size()});
}

std::optional<Scan> AfterText(std::string_view line, std::string_view text) {
  const std::size_t at = line.find(text);
  return at == line.npos ? std::nullopt : std::optional(Scan{line, at + text.size()});
}

}  // namespace carma::task
