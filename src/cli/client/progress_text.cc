#include "cli/client/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/client/task_words.h"

namespace carma::cli {
namespace {

using task::ProgressReport;

std::string LeftText(const ProgressReport& progress, std::int64_t now_ms) {
  return progress.ends_ms ? SpanText(now_ms, std::max(now_ms, *progress.ends_ms)) : "";
}

}  // namespace

std::string ProgressBrief(const std::optional<ProgressReport>& progress, std::int64_t now_ms) {
  if (!progress) return "-";
  const std::string unit = base::Printable(progress->unit, 16);
  // Rounded down, because 100% means the end.
  if (progress->fraction) {
    const std::string left = LeftText(*progress, now_ms);
    return fmt::format("{:.0f}%{}{}", std::floor(*progress->fraction * 100),
                       left.empty() ? "" : " ", left);
  }
  if (!progress->total || *progress->total <= 0)
    return fmt::format("{:g} {}s", progress->done, unit);
  const double percent = std::floor(std::min(1.0, progress->done / *progress->total) * 100);
  if (progress->epoch && unit != "epoch")
    return fmt::format("{:.0f}% of epoch {:.0f}", percent, *progress->epoch);
  return fmt::format("{:.0f}% of {}s", percent, unit);
}

std::string ProgressSentence(const ProgressReport& progress, std::int64_t now_ms) {
  const std::string left = LeftText(progress, now_ms);
  std::string text;
  if (progress.fraction) text += fmt::format("{:.1f}% done", *progress.fraction * 100);
  if (progress.fraction && !left.empty()) text += ", about " + left + " left";
  if (!text.empty()) text += "; ";
  text += progress.phase == "eval" ? "evaluation" : "training";
  if (progress.epoch) text += fmt::format(", epoch {:.0f}", *progress.epoch);
  text += fmt::format(", {} {:.10g}", base::Printable(progress.unit, 16), progress.done);
  if (progress.total) text += fmt::format(" of {:.10g}", *progress.total);
  if (progress.rate_per_s) text += fmt::format(", {:.3g} per second", *progress.rate_per_s);
  if (progress.loss) text += fmt::format(", loss {:.4g}", *progress.loss);
  return text;
}

}  // namespace carma::cli
