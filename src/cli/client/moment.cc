#include "cli/client/moment.h"

#include <ctime>
#include <optional>

#include "base/text.h"
#include "cli/calls.h"

namespace carma::cli {

namespace {

std::optional<base::Time> ParseDate(const std::string& text) {
  for (const char* format :
       {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    parts.tm_isdst = -1;
    const std::time_t seconds = std::mktime(&parts);
    if (seconds == -1) return std::nullopt;
    return base::FromMs(std::int64_t{seconds} * 1000);
  }
  return std::nullopt;
}

}  // namespace

Result<base::Time> ParseMoment(Context& context, const char* option, const std::string& text) {
  if (const std::optional<base::Time> date = ParseDate(text)) return *date;
  const bool has_unit = text.find_first_of("smhd") != std::string::npos;
  const Result<base::Duration> ago = base::ParseSpan(text);
  if (!has_unit || !ago) {
    return Fail(ErrorCode::kInvalid,
                std::string(option) +
                    ": expected a date like \"2026-03-01 14:05\" or a span like " +
                    "2h for two hours ago, not '" + base::Printable(text, 40) + "'");
  }
  const Called<api::StatusView> status = GetStatus(context.client());
  if (!status) return std::unexpected(status.error());
  return base::FromMs(status->value.now_ms) - *ago;
}

}  // namespace carma::cli
