#include "task/shim/shim_event.h"

#include <fmt/format.h>

#include <cstring>

#include "base/log.h"
#include "base/text.h"

namespace carma::task {
namespace {

std::string SizeText(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib < 0.1) return fmt::format("{} bytes", bytes);
  return mib < 1024 ? fmt::format("{:.1f}M", mib) : base::FormatMib(bytes >> 20);
}

}  // namespace

ShimEvent EventOf(const KnownAttempt& attempt, ShimEventKind kind) {
  return {.kind = kind, .id = attempt.id, .attempt = attempt.number};
}

ShimEvent FailureOf(const KnownAttempt& attempt, std::string text, bool retryable) {
  ShimEvent event = EventOf(attempt, ShimEventKind::kLaunchFailed);
  event.text = base::Printable(text, 4000);
  event.retryable = retryable;
  return event;
}

ShimEvent FailureOf(const KnownAttempt& attempt, const base::Error& error) {
  ShimEvent event = FailureOf(attempt, error.message, error.code != ErrorCode::kInvalid);
  event.exhausted = event.retryable && error.code != ErrorCode::kConflict;
  return event;
}

ShimEvent NoStartOf(const KnownAttempt& attempt) {
  constexpr char kWhy[] = "it did not start; its folders or the user database may not respond";
  ShimEvent event = FailureOf(attempt, kWhy, /*retryable=*/true);
  event.waits = true;
  return event;
}

ShimEvent EventOf(const KnownAttempt& attempt, const ShimReport& report) {
  if (!report.launched) {
    ShimEvent event = FailureOf(attempt, report.text, report.retryable);
    event.waits = event.no_user = report.no_user;
    return event;
  }
  if (report.dropped_output_bytes > 0) {
    base::LogWarn("task_output_lost",
                  {base::Field{"task", attempt.id}, base::Field{"attempt", attempt.number},
                   base::Field{"bytes", report.dropped_output_bytes}});
  }
  ShimEvent event = EventOf(attempt, ShimEventKind::kExited);
  if (report.dropped_output_bytes > 0) {
    event.text = fmt::format("{} {}{}{}", SizeText(report.dropped_output_bytes), kOutputLostText,
                             report.output_error != 0 ? ": " : "",
                             report.output_error != 0 ? std::strerror(report.output_error) : "");
  }
  event.exit_code = report.exit_code;
  event.signal = report.signal;
  event.lost = report.lost;
  event.host_oom = report.host_oom;
  event.stderr_tail = report.stderr_tail;
  event.ended_boot_ns = report.ended_boot_ns;
  return event;
}

}  // namespace carma::task
