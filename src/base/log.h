// Writes the log to stderr as key=value lines. Each line has an event name that is easy to search
// for, followed by fields with units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace carma::base {

enum class LogLevel { kInfo, kWarn, kError };

struct Field {
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, double v);
  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T> Field(std::string_view k, T v)
      : key(k), value(std::to_string(static_cast<std::int64_t>(v))) {}
  std::string key;
  std::string value;
};

// Thread-safe. kInfo: normal events, such as a task start. kWarn: events that require action.
void Log(LogLevel level, std::string_view event, const std::vector<Field>& fields = {});
inline void LogInfo(std::string_view e, const std::vector<Field>& f = {}) {
  Log(LogLevel::kInfo, e, f);
}
inline void LogWarn(std::string_view e, const std::vector<Field>& f = {}) {
  Log(LogLevel::kWarn, e, f);
}
inline void LogError(std::string_view e, const std::vector<Field>& f = {}) {
  Log(LogLevel::kError, e, f);
}
void SetLogLevel(LogLevel level);
// Returns false if the name is not "info", "warn" or "error".
bool SetLogLevel(std::string_view name);

}  // namespace carma::base
