#include "cli/client/task_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <optional>
#include <vector>

#include "base/text.h"
#include "cli/shell_quote.h"
#include "core/values/task_state.h"

namespace carma::cli {
namespace {

using api::TaskView;

constexpr std::size_t kMaxNameShown = 256;

constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

std::tm LocalParts(std::int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return parts;
}

// A time, shortened according to how far it is from now: "14:20", "Tue 09:05", "2026-03-01 14:20".
std::string MomentBrief(std::int64_t ms, std::int64_t now_ms) {
  const std::string whole = Minute(ms);
  const std::tm then = LocalParts(ms);
  const std::tm now = LocalParts(now_ms);
  const std::string time = whole.substr(11);
  if (then.tm_year == now.tm_year && then.tm_yday == now.tm_yday) return time;
  // A weekday is unambiguous only within a week, so it is used only for the next six days.
  if (ms > now_ms && ms - now_ms < 6 * kDayMs)
    return std::string(kDays[static_cast<std::size_t>(then.tm_wday)]) + " " + time;
  return whole;
}

using task::ProgressReport;

std::string LeftText(const ProgressReport& progress, std::int64_t now_ms) {
  return progress.ends_ms ? SpanText(now_ms, std::max(now_ms, *progress.ends_ms)) : "";
}

}  // namespace

std::optional<core::TaskState> StateOf(const TaskView& task) {
  return core::ParseTaskState(task.state);
}

bool HoldsGpus(const TaskView& task) {
  const auto state = StateOf(task);
  return state && core::HoldsGpus(*state);
}

std::string StateCode(const TaskView& task) {
  const auto state = StateOf(task);
  return state ? std::string(core::TaskStateCode(*state)) : base::Printable(task.state, 20);
}

Colour StateColour(const TaskView& task) {
  const auto state = StateOf(task);
  if (!state) return Colour::kNone;
  if (HoldsGpus(task)) return Colour::kGood;
  if (!core::IsFinal(*state)) return Colour::kWaiting;
  if (*state == core::TaskState::kSucceeded || *state == core::TaskState::kCancelled)
    return Colour::kFaint;
  return Colour::kBad;
}

bool HasEnded(const TaskView& task) {
  const auto state = StateOf(task);
  return state && core::IsFinal(*state);
}

std::string EndText(const TaskView& task) {
  const bool oom = StateOf(task) == core::TaskState::kOutOfMemory;
  std::string text = oom ? "ran out of memory" : base::Printable(task.state, 40);
  std::replace(text.begin(), text.end(), '_', ' ');
  if (task.signal && *task.signal != 0) {
    const char* name = ::strsignal(*task.signal);
    return text + ", killed by signal " + std::to_string(*task.signal) +
           (name ? " (" + std::string(name) + ")" : "");
  }
  if (task.exit_code && StateOf(task) != core::TaskState::kSucceeded)
    return text + (oom ? ", exit code " : " with exit code ") + std::to_string(*task.exit_code);
  return text;
}

int ExitCodeOf(const TaskView& task) {
  if (StateOf(task) == core::TaskState::kSucceeded) return 0;
  if (task.signal && *task.signal > 0) return 128 + (*task.signal & 127);
  if (task.exit_code && *task.exit_code != 0) return *task.exit_code & 255;
  return 1;
}

std::string Line(const std::string& text) {
  return text.empty() ? "-" : base::Printable(text, kMaxNameShown);
}

std::string TimePoint(const std::optional<std::int64_t>& ms) {
  return ms ? base::FormatTime(base::FromMs(*ms)) : "-";
}

std::string SpanText(std::int64_t from_ms, std::int64_t until_ms) {
  return base::FormatSpan(base::Duration(std::max<std::int64_t>(0, until_ms - from_ms)));
}

std::string TimeText(const TaskView& task, std::int64_t now_ms) {
  if (!task.launched_ms) return "0:00";
  if (HoldsGpus(task)) return SpanText(*task.launched_ms, now_ms);
  if (task.ended_ms) return SpanText(*task.launched_ms, *task.RanUntilMs());
  return HasEnded(task) ? "-" : "0:00";  // "-": a row of tasks with different times
}

std::string WaitText(const TaskView& task, std::int64_t now_ms) {
  return task.waiting_since_ms ? SpanText(*task.waiting_since_ms, now_ms) : "-";
}

std::string TaskName(const TaskView& task) {
  return Line(task.array_index ? fmt::format("{}[{}]", task.name, *task.array_index) : task.name);
}

std::int64_t ExpectedMib(const TaskView& task) {
  return std::max(task.predicted_mib.value_or(0), task.peak_mib);
}

std::string TaskMemory(const TaskView& task) {
  if (task.gpus == 0) return "-";
  if (HoldsGpus(task)) {
    return (task.observed_mib ? base::FormatMib(*task.observed_mib) : "-") + "/" +
           (task.claim_mib > 0 ? base::FormatMib(task.claim_mib) : "-");
  }
  if (HasEnded(task)) return task.peak_mib > 0 ? base::FormatMib(task.peak_mib) : "-";
  const std::int64_t expected_mib = ExpectedMib(task);
  return expected_mib > 0 ? "~" + base::FormatMib(expected_mib) : "-";
}

TaskTotals TotalsOf(const std::vector<std::pair<std::string, std::int64_t>>& task_counts) {
  TaskTotals totals;
  for (const auto& [name, count] : task_counts) {
    const auto state = core::ParseTaskState(name);
    if (!state || core::IsFinal(*state)) continue;
    (core::HoldsGpus(*state) ? totals.running : totals.waiting) += count;
  }
  return totals;
}

std::string GpuIndices(const TaskView& task) {
  std::vector<std::string> indices;
  for (std::int64_t index : task.gpu_indices) indices.push_back(std::to_string(index));
  return base::Join(indices, ",");
}

std::uint64_t TaskOf(std::string_view dependency) {
  const auto number = base::ParseInt(dependency.substr(dependency.find(':') + 1));
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

bool IsIdle(const TaskView& task) {
  return HoldsGpus(task) && task.idle_since_ms;
}

std::string ParametersText(const TaskView& task) {
  std::string text;
  for (const auto& [name, value] : task.parameters)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text.empty() ? "-" : base::Printable(text, 4096);
}

std::string CommandText(const TaskView& task) {
  std::vector<std::string> words;
  for (const std::string& word : task.command) words.push_back(ShellQuote(word));
  return base::Printable(base::Join(words, " "), 4096);
}

std::string Minute(std::int64_t ms) {
  return base::FormatTime(base::FromMs(ms)).substr(0, 16);
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
    text = "It will start by " + MomentBrief(*latest_ms, now_ms) +
           " at the latest, based on the time limits of the tasks ahead of it, unless a "
           "higher-priority task arrives or a GPU closes or fails.\n";
  }
  if (likely_ms && (!latest_ms || *likely_ms + 60'000 < *latest_ms)) {
    text += "Based on known run times, it should start at about " +
            MomentBrief(*likely_ms, now_ms) + ".\n";
  }
  return text;
}

std::string ProgressBrief(const std::optional<ProgressReport>& progress, std::int64_t now_ms) {
  if (!progress) return "-";
  const std::string unit = base::Printable(progress->unit, 16);
  // Rounded down, because 100 % would mean that the task has ended.
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
  if (progress.epoch && progress.unit != "epoch")
    text += fmt::format(", epoch {:.0f}", *progress.epoch);
  text += fmt::format(", {} {:.10g}", base::Printable(progress.unit, 16), progress.done);
  if (progress.total) text += fmt::format(" of {:.10g}", *progress.total);
  if (progress.rate_per_s) text += fmt::format(", {:.3g} per second", *progress.rate_per_s);
  if (progress.loss) text += fmt::format(", loss {:.4g}", *progress.loss);
  return text;
}

}  // namespace carma::cli
