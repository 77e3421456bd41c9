#include "config/key_kinds.h"

namespace carma::config {

using base::Duration;

namespace {

constexpr std::int64_t kMaxSizeMib = std::int64_t{1} << 30;  // 1 PiB; a larger size is a typo

std::string SizeText(std::int64_t mib) {
  if (mib > 0 && mib % 1024 == 0) return fmt::format("\"{}G\"", mib / 1024);
  return fmt::format("\"{}M\"", mib);
}

std::string SpanText(Duration span) {
  constexpr std::pair<Duration, char> kUnits[] = {
      {kDay, 'd'}, {kHour, 'h'}, {kMinute, 'm'}, {kSecond, 's'}};
  for (const auto& [unit, letter] : kUnits) {
    if (span >= unit && span % unit == Duration::zero())
      return fmt::format("\"{}{}\"", span / unit, letter);
  }
  return span == Duration::zero() ? "\"0s\"" : fmt::format("\"{}ms\"", span.count());
}

// A unit is required, because Slurm users would read a bare number as minutes, and other users as
// seconds.
std::optional<Duration> ReadSpan(std::string_view text) {
  const std::string lower = base::ToLower(base::Trim(text));
  if (lower.ends_with("ms")) {
    const std::optional<std::int64_t> ms =
        base::ParseInt(std::string_view(lower).substr(0, lower.size() - 2));
    if (!ms || *ms < 0 || Duration(*ms) > kYear) return std::nullopt;
    return Duration(*ms);
  }
  if (lower.empty() || std::string_view("smhd").find(lower.back()) == std::string_view::npos)
    return std::nullopt;
  const Result<Duration> span = base::ParseSpan(lower);
  return span ? std::optional(*span) : std::nullopt;
}

std::optional<bool> ReadBool(std::string_view text) {
  const std::string lower = base::ToLower(base::Trim(text));
  for (const char* yes : {"true", "on", "yes", "1"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"false", "off", "no", "0"}) {
    if (lower == no) return false;
  }
  return std::nullopt;
}

bool IsPlain(std::string_view text, std::size_t max_bytes) {
  return text.size() <= max_bytes && text.find('\0') == std::string_view::npos;
}

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

Kind<bool> Flag() {
  return {"true or false", kBool, &ReadBool, [](bool on) { return on ? "true" : "false"; }};
}

Kind<double> Fraction(const char* type, bool (*meant)(double)) {
  return {type, kNumber,
          [=](std::string_view text) {
            const std::optional<double> value = base::ParseDouble(base::Trim(text));
            return value && meant(*value) ? value : std::nullopt;
          },
          [](double value) { return fmt::format("{}", value); }};
}

Kind<std::int64_t> Size() {
  return {"memory size like \"2G\" or \"512M\" (a bare whole number is MiB)", kText | kNumber,
          [](std::string_view text) -> std::optional<std::int64_t> {
            // Rejects 0.5, which was probably meant as a fraction or as GiB, not MiB.
            if (base::ParseDouble(base::Trim(text)) && !base::ParseInt(base::Trim(text)))
              return std::nullopt;
            const Result<std::int64_t> mib = base::ParseMemoryMib(text);
            if (!mib || *mib > kMaxSizeMib) return std::nullopt;
            return *mib;
          },
          &SizeText};
}

Kind<Duration> Span(Duration low, Duration high) {
  return {fmt::format("time span with unit, from {} to {}", SpanText(low), SpanText(high)), kText,
          [=](std::string_view text) {
            const std::optional<Duration> span = ReadSpan(text);
            return span && *span >= low && *span <= high ? span : std::nullopt;
          },
          &SpanText};
}

Kind<std::string> Word(const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::string>> themselves;
  for (const std::string& word : words) themselves.emplace_back(word, word);
  return Choice(themselves);
}

Kind<std::string> LogLevelName() {
  Kind<std::string> kind = Word({"info", "warn", "error"});
  // Old configuration files may contain "debug", which never logged more than "info" and is read as
  // "info".
  kind.read = [read = kind.read](std::string_view text) {
    return read(base::ToLower(base::Trim(text)) == "debug" ? "info" : text);
  };
  return kind;
}

Kind<std::string> Text(const char* type, std::function<bool(std::string_view)> meant) {
  return {type, kText,
          [=](std::string_view text) {
            return meant(text) ? std::optional(std::string(text)) : std::nullopt;
          },
          &Quoted};
}

Kind<std::string> Path(const char* type, std::size_t max_bytes) {
  return Text(type, [=](std::string_view text) {
    return text.starts_with('/') && IsPlain(text, max_bytes);
  });
}

Kind<std::string> PathOrNone() {
  return Text("absolute path, or empty", [](std::string_view text) {
    return text.empty() || (text.starts_with('/') && IsPlain(text, 4'095));
  });
}

Kind<std::string> NameOrPath(const char* type) {
  return Text(type, [](std::string_view text) {
    const bool path = text.find('/') != std::string_view::npos;
    return !text.empty() && (!path || text[0] == '/') && IsPlain(text, 4'095);
  });
}

Kind<unsigned> FileMode() {
  return {"octal file mode in quotes, like \"0660\" or \"660\"", kText,
          [](std::string_view text) -> std::optional<unsigned> {
            if (text.size() < 3 || text.size() > 4 || (text.size() == 4 && text[0] != '0'))
              return std::nullopt;
            unsigned mode = 0;
            for (const char c : text) {
              if (c < '0' || c > '7') return std::nullopt;
              mode = mode * 8 + static_cast<unsigned>(c - '0');
            }
            return mode;
          },
          [](unsigned mode) { return fmt::format("\"{:04o}\"", mode); }};
}

}  // namespace carma::config
