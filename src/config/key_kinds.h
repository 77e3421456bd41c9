// The kinds of configuration values: the strings they accept, and how they are read and written.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "config/keys.h"

namespace carma::config {

inline constexpr base::Duration kMs{1};
inline constexpr base::Duration kSecond{1'000};
inline constexpr base::Duration kMinute{60'000};
inline constexpr base::Duration kHour{3'600'000};
inline constexpr base::Duration kDay{86'400'000};
inline constexpr base::Duration kYear = 365 * kDay;

template <class T>
struct Kind {
  std::string type;    // see Key
  unsigned forms = 0;  // of Form, or-ed
  std::function<std::optional<T>(std::string_view)>
      read;                                    // returns empty if the text does not match `type`
  std::function<std::string(const T&)> write;  // in the notation of the configuration file
  std::function<std::string(std::string_view)> trouble = {};  // see Key
};

// Quotes text as in the configuration file.
std::string Quoted(std::string_view text);

Kind<bool> Flag();
// type: describes the allowed numbers; meant: returns true for an allowed number.
Kind<double> Fraction(const char* type, bool (*meant)(double));
Kind<std::int64_t> Size();  // MiB
Kind<base::Duration> Span(base::Duration low, base::Duration high);
// Accepts one of these words, in upper or lower case.
Kind<std::string> Word(const std::vector<std::string>& words);
Kind<std::string> LogLevelName();
// Accepts any text for which `meant` returns true.
Kind<std::string> Text(const char* type, std::function<bool(std::string_view)> meant);
Kind<std::string> Path(const char* type, std::size_t max_bytes);
Kind<std::string> PathOrNone();  // empty means none
Kind<unsigned> FileMode();
Kind<std::string> NameOrPath(const char* type);

template <class T = std::int64_t>
Kind<T> Count(std::int64_t low, std::int64_t high) {
  return {fmt::format("whole number from {} to {}", low, high), kNumber,
          [=](std::string_view text) -> std::optional<T> {
            const std::optional<std::int64_t> value = base::ParseInt(base::Trim(text));
            if (!value || *value < low || *value > high) return std::nullopt;
            return static_cast<T>(*value);
          },
          [](T value) { return fmt::format("{}", value); }};
}

// Accepts one of several words, in upper or lower case. Each word stands for a value.
template <class T>
Kind<T> Choice(const std::vector<std::pair<std::string, T>>& words) {
  std::string type;
  for (std::size_t i = 0; i < words.size(); ++i) {
    type += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    type += Quoted(words[i].first);
  }
  return {
      type, kText,
      [=](std::string_view text) -> std::optional<T> {
        const std::string word = base::ToLower(base::Trim(text));
        const auto found = std::ranges::find(words, word, &std::pair<std::string, T>::first);
        if (found == words.end()) return std::nullopt;
        return found->second;
      },
      [=](const T& value) {
        return Quoted(std::ranges::find(words, value, &std::pair<std::string, T>::second)->first);
      }};
}

template <class T>
Kind<T> Called(std::string type, Kind<T> kind) {
  kind.type = std::move(type);
  return kind;
}

// Accepts a value of this kind, or one of several words that mean "no value" ("auto", false).
template <class T>
Kind<std::optional<T>> OrNone(const Kind<T>& kind, unsigned forms,
                              const std::vector<std::string_view>& words, std::string written) {
  return {kind.type + ", or " + written, kind.forms | forms,
          [read = kind.read, words](std::string_view text) -> std::optional<std::optional<T>> {
            if (std::ranges::count(words, base::ToLower(base::Trim(text))) > 0)
              return std::optional<T>();
            if (std::optional<T> value = read(text)) return value;
            return std::nullopt;
          },
          [write = kind.write, written](const std::optional<T>& value) {
            return value ? write(*value) : written;
          },
          kind.trouble};
}
template <class T>
Kind<std::optional<T>> OrFalse(const Kind<T>& kind) {
  return OrNone(kind, kBool | kText, {"false", "off"}, "false");
}
// Accepts a value of this kind, or "auto", which is read as empty: carmad then uses a value that
// suits the machine.
template <class T>
Kind<std::optional<T>> OrAuto(const Kind<T>& kind) {
  return OrNone(kind, kText, {"auto"}, "\"auto\"");
}

// Accepts text that `parse` can read. `write` converts the value back to text.
template <class T, class Write>
Kind<T> Parsed(const char* type, Result<T> (*parse)(std::string_view), Write write) {
  return {type, kText,
          [=](std::string_view text) -> std::optional<T> {
            Result<T> read = parse(text);
            if (!read) return std::nullopt;
            return *std::move(read);
          },
          [=](const T& value) { return Quoted(std::invoke(write, value)); },
          [=](std::string_view text) -> std::string {
            const Result<T> read = parse(text);
            return read ? "" : read.error().message;
          }};
}

// Accepts up to `most` items of one kind, separated by commas.
template <class T>
Kind<std::vector<T>> List(const char* type, unsigned forms, std::size_t most, const Kind<T>& item) {
  return {type, forms,
          [=](std::string_view text) -> std::optional<std::vector<T>> {
            std::vector<T> items;
            if (base::Trim(text).empty()) return items;
            for (const std::string_view piece : base::Split(text, ',')) {
              std::optional<T> value = item.read(base::Trim(piece));
              if (!value || items.size() == most) return std::nullopt;
              items.push_back(*std::move(value));
            }
            return items;
          },
          [=](const std::vector<T>& items) {
            std::vector<std::string> written;
            for (const T& each : items) written.push_back(item.write(each));
            return "[" + base::Join(written, ", ") + "]";
          },
          [=](std::string_view text) -> std::string {
            for (const std::string_view piece : base::Split(text, ',')) {
              const std::string_view each = base::Trim(piece);
              if (!item.trouble || item.read(each)) continue;
              const std::string shown = "'" + base::Printable(each, 100) + "'";
              const std::string trouble = item.trouble(each);
              return trouble.ends_with(shown) ? trouble : trouble + " in " + shown;
            }
            return "";
          }};
}

}  // namespace carma::config
