#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "base/standard_streams.h"
#include "base/text.h"

namespace carma::base {
namespace {

// LogLevel has the same order as spdlog's levels, beginning with info.
constexpr int kFirstLevel = spdlog::level::info;

// Writes the priority, which the journal expects at the beginning of the line.
class Priority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    const std::string_view prefix =
        PriorityPrefix(static_cast<LogLevel>(message.level - kFirstLevel));
    line.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<Priority>();
  }
};

// If the terminal or the pipe's reader is gone, writing a line fails immediately, and only that
// line is lost.
spdlog::logger& Logger() {
  // Never destroyed, because threads may log while the process is exiting.
  static spdlog::logger& logger = *[] {
    auto* made = new spdlog::logger("carma", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Priority>('P').set_pattern("%P%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
    made->set_formatter(std::move(formatter));
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return logger;
}

spdlog::level::level_enum Translate(LogLevel level) {
  return static_cast<spdlog::level::level_enum>(kFirstLevel + static_cast<int>(level));
}

std::string Quoted(std::string_view value) {
  const std::string text = Printable(value, 2000);
  if (!text.empty() && text.find_first_of(" =\"") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

Field::Field(std::string_view k, double v)
    : key(k), value(std::abs(v) < 1e6 ? fmt::format("{:.6g}", v) : fmt::format("{:.0f}", v)) {}

void Log(LogLevel level, std::string_view event, const std::vector<Field>& fields) {
  const spdlog::level::level_enum wanted = Translate(level);
  if (!Logger().should_log(wanted)) return;
  std::string line = "event=" + std::string(event);
  for (const Field& field : fields) line += " " + field.key + "=" + Quoted(field.value);
  Logger().log(wanted, spdlog::string_view_t(line));
}

void SetLogLevel(LogLevel level) {
  Logger().set_level(Translate(level));
}

bool SetLogLevel(std::string_view name) {
  constexpr std::string_view kNames[] = {"info", "warn", "error"};
  const auto* const found = std::ranges::find(kNames, name);
  if (found == std::end(kNames)) return false;
  SetLogLevel(static_cast<LogLevel>(found - kNames));
  return true;
}

}  // namespace carma::base
