#include "slurm/spank/words.h"

#include <strings.h>

#include <cmath>
#include <cstdlib>

namespace carma::slurm {
namespace {

constexpr std::int64_t kMostMib = std::int64_t{1} << 24;
constexpr std::size_t kMostDigits = 18;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Parses digits with at most one decimal point, without a sign or exponent.
std::optional<double> Decimal(std::string_view text) {
  int points = 0, digits = 0;
  for (const char c : text) {
    points += c == '.';
    digits += IsDigit(c);
    if (c != '.' && !IsDigit(c)) return std::nullopt;
  }
  if (digits == 0 || points > 1 || text.size() > kMostDigits) return std::nullopt;
  return std::strtod(std::string(text).c_str(), nullptr);
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         ::strncasecmp(text.data() + text.size() - end.size(), end.data(), end.size()) == 0;
}

}  // namespace

std::optional<std::int64_t> MemoryMib(std::string_view text) {
  static constexpr struct {
    std::string_view end;
    double mib;
  } kUnits[] = {{"mib", 1},      {"gib", 1024}, {"tib", 1 << 20}, {"mb", 1},      {"gb", 1024},
                {"tb", 1 << 20}, {"m", 1},      {"g", 1024},      {"t", 1 << 20}, {"", 1}};
  for (const auto& unit : kUnits) {
    if (!EndsWith(text, unit.end)) continue;
    const std::optional<double> number = Decimal(text.substr(0, text.size() - unit.end.size()));
    if (!number) return std::nullopt;
    const double mib = std::ceil(*number * unit.mib);
    if (mib < 1 || mib > static_cast<double>(kMostMib)) return std::nullopt;
    return static_cast<std::int64_t>(mib);
  }
  return std::nullopt;
}

std::optional<std::int64_t> Whole(std::string_view text, std::int64_t low, std::int64_t high) {
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  std::int64_t number = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    number = number * 10 + (c - '0');
  }
  if (number < low || number > high) return std::nullopt;
  return number;
}

std::optional<double> Share(std::string_view text) {
  const bool percent = EndsWith(text, "%");
  if (percent) text.remove_suffix(1);
  std::optional<double> number = Decimal(text);
  if (!number) return std::nullopt;
  if (percent || *number > 1) *number /= 100;
  if (*number < 0.01 || *number > 1) return std::nullopt;
  return number;
}

std::string OneLine(std::string_view text, std::size_t most) {
  std::string line(text.substr(0, most));
  for (char& c : line) {
    if (c < ' ' || c > '~') c = '?';
  }
  return line;
}

std::string WithNode(std::string_view path, std::string_view node) {
  std::string filled(path);
  for (std::size_t at = 0; (at = filled.find("%n", at)) != filled.npos; at += node.size())
    filled.replace(at, 2, node);
  return filled;
}

std::optional<std::string> AbsolutePath(std::string_view path, std::string_view folder) {
  if (path.empty()) return std::nullopt;
  if (path.front() == '/') return std::string(path);
  if (folder.empty() || folder.front() != '/') return std::nullopt;
  return std::string(folder) + "/" + std::string(path);
}

}  // namespace carma::slurm
