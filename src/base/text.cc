#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/calendar.h"

namespace carma::base {
namespace {

constexpr std::int64_t kMaxMib = std::int64_t{1} << 40;
constexpr std::int64_t kMaxSpanS = std::int64_t{10} * 366 * 24 * 3600;

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Length of the UTF-8 sequence at the beginning of the text; 0 if there is none.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (first == 0xED && byte(1) > 0x9F) return 0;  // surrogates
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

// Decodes a sequence that Utf8Length has accepted.
char32_t CodePoint(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first;
  char32_t point = first & (0x7FU >> sequence.size());
  for (const char c : sequence.substr(1))
    point = point << 6 | (static_cast<unsigned char>(c) & 0x3F);
  return point;
}

bool IsControl(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) ||
         point == 0x061C ||                       // Arabic letter mark
         point == 0x200E || point == 0x200F ||    // left-to-right and right-to-left marks
         (point >= 0x2028 && point <= 0x202E) ||  // line separators, embeddings and overrides
         (point >= 0x2066 && point <= 0x2069);    // isolates
}

std::unexpected<Error> BadSpan(std::string_view text) {
  return Invalid(
      "'" + Printable(text, 40) +
      "' is not a time span of at most ten years (90s, 15m, 12h, 2d, MIN, H:M:S or D-H:M:S)");
}

// Reads "1h30m" or "90s": one or more numbers, each followed by a unit.
std::optional<std::int64_t> UnitSpanSeconds(std::string_view text) {
  std::int64_t total = 0;
  while (!text.empty()) {
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    if (digits == 0 || digits > 9 || digits == text.size()) return std::nullopt;
    const std::int64_t number = *ParseInt(text.substr(0, digits));
    constexpr std::string_view kUnits = "smhd";
    constexpr std::int64_t kSeconds[] = {1, 60, 3600, 86400};
    const std::size_t unit = kUnits.find(text[digits]);
    if (unit == std::string_view::npos) return std::nullopt;
    total += number * kSeconds[unit];
    text.remove_prefix(digits + 1);
  }
  return total;
}

}  // namespace

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && IsBlank(text[i])) ++i;
    const std::size_t start = i;
    while (i < text.size() && !IsBlank(text[i])) ++i;
    if (i > start) words.push_back(text.substr(start, i - start));
  }
  return words;
}

bool IsWordIn(std::string_view spaced_words, std::string_view word) {
  return !word.empty() && !word.contains(' ') &&
         spaced_words.contains(" " + std::string(word) + " ");
}

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string Join(const std::vector<std::string>& pieces, std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) joined += separator;
    joined += pieces[i];
  }
  return joined;
}

std::optional<std::int64_t> ParseInt(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> ParseDouble(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

Result<std::int64_t> ParseMemoryMib(std::string_view text) {
  std::string lower = ToLower(Trim(text));
  const auto strip = [&](std::string_view suffix) {
    if (!lower.ends_with(suffix)) return false;
    lower.resize(lower.size() - suffix.size());
    return true;
  };
  const auto unit = [&](char letter) {
    const std::string l(1, letter);
    return strip(l + "ib") || strip(l + "b") || strip(l);
  };
  constexpr std::pair<char, double> kUnits[] = {
      {'t', 1024.0 * 1024.0}, {'g', 1024}, {'m', 1}, {'k', 1.0 / 1024}};
  const auto* const used =
      std::ranges::find_if(kUnits, [&](const auto& each) { return unit(each.first); });
  const double to_mib = used == std::end(kUnits) ? 1 : used->second;
  const std::optional<double> number = ParseDouble(Trim(lower));
  if (!number || *number < 0 || *number * to_mib > static_cast<double>(kMaxMib)) {
    return Invalid("'" + Printable(text, 40) +
                   "' is not a memory size (800M, 12G, or a number of MiB)");
  }
  return static_cast<std::int64_t>(std::ceil(*number * to_mib));
}

Result<Duration> ParseSpan(std::string_view text) {
  const std::string lower = ToLower(Trim(text));
  std::string_view rest = lower;
  if (rest.empty() || rest.size() > 40) return BadSpan(text);
  std::int64_t total_s = 0;
  if (rest.find_first_of("smhd") != std::string_view::npos) {
    const std::optional<std::int64_t> seconds = UnitSpanSeconds(rest);
    if (!seconds) return BadSpan(text);
    total_s = *seconds;
  } else {
    std::int64_t days = 0;
    bool with_days = false;
    if (const std::size_t dash = rest.find('-'); dash != std::string_view::npos) {
      const std::optional<std::int64_t> number = ParseInt(rest.substr(0, dash));
      if (!number || dash == 0) return BadSpan(text);
      days = *number;
      with_days = true;
      rest.remove_prefix(dash + 1);
    }
    std::vector<std::int64_t> numbers;
    for (std::string_view piece : Split(rest, ':')) {
      const std::optional<std::int64_t> number = ParseInt(piece);
      if (!number || *number < 0 || *number > kMaxSpanS) return BadSpan(text);
      numbers.push_back(*number);
    }
    if (numbers.size() > 3 || days < 0 || days > 4000) return BadSpan(text);
    // As in Slurm: after a number of days, the next number is hours. Otherwise, a single number or
    // the first of two is minutes.
    if (with_days || numbers.size() == 3) {
      numbers.resize(3, 0);
      total_s = days * 86400 + numbers[0] * 3600 + numbers[1] * 60 + numbers[2];
    } else {
      numbers.resize(2, 0);
      total_s = numbers[0] * 60 + numbers[1];
    }
  }
  if (total_s > kMaxSpanS) return BadSpan(text);
  return std::chrono::seconds(total_s);
}

std::string Counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string FormatMib(std::int64_t mib) {
  return mib < 1024 ? fmt::format("{}M", mib)
                    : fmt::format("{:.1f}G", static_cast<double>(mib) / 1024.0);
}

std::string FormatSpan(Duration span) {
  const long total = static_cast<long>(span.count() / 1000);
  const long days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60,
             seconds = total % 60;
  if (days > 0) return fmt::format("{}-{:02}:{:02}:{:02}", days, hours, minutes, seconds);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, seconds);
  return fmt::format("{}:{:02}", minutes, seconds);
}

std::string FormatTime(Time t) {
  const std::tm parts = PartsOf(t, /*utc=*/false);
  char buffer[32];
  std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &parts);
  return buffer;
}

std::string FormatTimeIso(Time t) {
  const std::tm parts = PartsOf(t, /*utc=*/true);
  char day[32];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  const Duration whole = std::chrono::floor<std::chrono::seconds>(t.time_since_epoch());
  return fmt::format("{}.{:03}Z", day, (t.time_since_epoch() - whole).count());
}

std::string LocalTimes(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd";
  const auto fits = [&](std::size_t at) {
    for (std::size_t i = 0; i < kForm.size(); ++i) {
      if (at + i >= text.size()) return false;
      const char c = text[at + i];
      if (kForm[i] == 'd' ? c < '0' || c > '9' : c != kForm[i]) return false;
    }
    return true;
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = fits(at) ? text.find('Z', at + kForm.size()) : std::string_view::npos;
    const bool moment =
        end != std::string_view::npos &&
        text.substr(at + kForm.size(), end - at - kForm.size()).find_first_not_of(".0123456789") ==
            std::string_view::npos;
    if (!moment) {
      out += text[at++];
      continue;
    }
    std::tm parts{};
    const std::string whole(text.substr(at, kForm.size()));
    ::strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    out += FormatTime(FromMs(static_cast<std::int64_t>(::timegm(&parts)) * 1000));
    at = end + 1;
  }
  return out;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool HasControls(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length > 0 && IsControl(CodePoint(text.substr(0, length)))) return true;
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return false;
}

bool IsOneLine(std::string_view text) {
  return IsUtf8(text) && !HasControls(text);
}

std::string Printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "…";
    const std::size_t length = Utf8Length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, length));
    if (length == 0 || IsControl(CodePoint(character))) {
      out += '?';
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace carma::base
