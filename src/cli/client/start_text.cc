#include "cli/client/start_text.h"

#include <array>
#include <ctime>

#include "base/text.h"

namespace carma::cli {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

std::tm LocalParts(std::int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return parts;
}

}  // namespace

std::string Minute(std::int64_t ms) {
  return base::FormatTime(base::FromMs(ms)).substr(0, 16);
}

std::string MomentBrief(std::int64_t ms, std::int64_t now_ms) {
  const std::string whole = Minute(ms);
  const std::tm then = LocalParts(ms);
  const std::tm now = LocalParts(now_ms);
  const std::string time = whole.substr(11);
  if (then.tm_year == now.tm_year && then.tm_yday == now.tm_yday) return time;
  // A week from now has the name of today.
  if (ms > now_ms && ms - now_ms < 6 * kDayMs)
    return std::string(kDays[static_cast<std::size_t>(then.tm_wday)]) + " " + time;
  return whole;
}

std::string StartBrief(const std::optional<std::int64_t>& latest_ms,
                       const std::optional<std::int64_t>& likely_ms, std::int64_t now_ms) {
  if (latest_ms) return "by " + MomentBrief(*latest_ms, now_ms);
  if (likely_ms) return "about " + MomentBrief(*likely_ms, now_ms);
  return "";
}

std::string StartSentences(const std::optional<std::int64_t>& latest_ms,
                           const std::optional<std::int64_t>& likely_ms, std::int64_t now_ms) {
  std::string text;
  if (latest_ms) {
    text = "It starts by " + MomentBrief(*latest_ms, now_ms) +
           " at the latest, judging by the time limits of the tasks before it, unless a task with "
           "higher priority arrives or a GPU closes or fails.\n";
  }
  if (likely_ms && (!latest_ms || *likely_ms + 60'000 < *latest_ms)) {
    text +=
        "Judging by known run times, it starts at about " + MomentBrief(*likely_ms, now_ms) + ".\n";
  }
  return text;
}

}  // namespace carma::cli
