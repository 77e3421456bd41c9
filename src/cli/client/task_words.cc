#include "cli/client/task_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "cli/shell_quote.h"
#include "core/values/task.h"

namespace carma::cli {
namespace {

using api::TaskView;

constexpr std::size_t kMaxNameShown = 256;

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
  if (*state == core::TaskState::kSucceeded || *state == core::TaskState::kCancelled) {
    return Colour::kFaint;
  }
  return Colour::kBad;
}

bool HasEnded(const TaskView& task) {
  const auto state = StateOf(task);
  return state && core::IsFinal(*state);
}

std::string EndText(const TaskView& task) {
  std::string text = base::Printable(task.state, 40);
  std::replace(text.begin(), text.end(), '_', ' ');
  if (task.signal && *task.signal != 0) {
    const char* name = ::strsignal(*task.signal);
    return text + ", ended by signal " + std::to_string(*task.signal) +
           (name ? " (" + std::string(name) + ")" : "");
  }
  if (task.exit_code && StateOf(task) != core::TaskState::kSucceeded) {
    return text + " with exit code " + std::to_string(*task.exit_code);
  }
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
  return task.ended_ms ? SpanText(*task.launched_ms, *task.ended_ms) : "0:00";
}

std::string GpuIndices(const TaskView& task) {
  std::vector<std::string> indices;
  for (std::int64_t index : task.gpu_indices) indices.push_back(std::to_string(index));
  return base::Join(indices, ",");
}

bool IsIdle(const TaskView& task) {
  return HoldsGpus(task) && task.idle_since_ms;
}

std::string CommandText(const TaskView& task) {
  std::vector<std::string> words;
  for (const std::string& word : task.command) words.push_back(ShellQuote(word));
  return base::Printable(base::Join(words, " "), 4096);
}

}  // namespace carma::cli
