// Short descriptions of a task: for its table row, its details, and commands that wait for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/task_view.h"
#include "cli/terminal.h"
#include "core/values/task_state.h"
#include "task/progress/report.h"

namespace carma::cli {

// Returns empty for a state that is unknown to this version of the command.
std::optional<core::TaskState> StateOf(const api::TaskView& task);
// "succeeded", "failed with exit code 3", "failed, killed by signal 9 (Killed)", "cancelled", "ran
// out of memory, exit code 1" …
std::string EndText(const api::TaskView& task);
// The exit code of a command that waited for the task: 0 if the task succeeded, otherwise the
// task's own exit code or 128 + signal, or 1 if it has neither.
int ExitCodeOf(const api::TaskView& task);
bool HasEnded(const api::TaskView& task);
// True if processes of the task may still exist.
bool HoldsGpus(const api::TaskView& task);
// "PD", "R" …; the full name of an unknown state.
std::string StateCode(const api::TaskView& task);
Colour StateColour(const api::TaskView& task);

// Returns the text as one printable line; "-" if it is empty.
std::string Line(const std::string& text);
// The time in the local time zone; "-" if there is none.
std::string TimePoint(const std::optional<std::int64_t>& ms);
// "2:30:00"; never negative.
std::string SpanText(std::int64_t from_ms, std::int64_t until_ms);
// The run time of the current attempt, or of the last attempt if it has ended.
std::string TimeText(const api::TaskView& task, std::int64_t now_ms);
// How long the task has waited; "-" if it is not waiting.
std::string WaitText(const api::TaskView& task, std::int64_t now_ms);
// "sweep[3]" for the task with index 3 of an array. A row that stands for several tasks already has
// its full name.
std::string TaskName(const api::TaskView& task);
// The memory that a waiting task is expected to need per GPU; 0 if unknown. This is the prediction,
// or the peak of an earlier attempt if that is higher.
std::int64_t ExpectedMib(const api::TaskView& task);
// Measured/promised memory while the task runs, ~predicted memory while it waits, and the measured
// peak once it has ended.
std::string TaskMemory(const api::TaskView& task);
struct TaskTotals {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
};
// Sums up the number of tasks in each state.
TaskTotals TotalsOf(const std::vector<std::pair<std::string, std::int64_t>>& task_counts);
std::string GpuIndices(const api::TaskView& task);  // "0,2"
// The number of the task in a dependency such as "afterok:12"; 0 if there is none.
std::uint64_t TaskOf(std::string_view dependency);
// True if the task is an idle holder, that is, has not used its GPUs for a while.
bool IsIdle(const api::TaskView& task);
// "lr=0.1 seed=3"; "-" if the task is not in a sweep.
std::string ParametersText(const api::TaskView& task);
std::string CommandText(const api::TaskView& task);

// ---- when a waiting task will start, as far as this is known ----

// For a column: "by 14:20", "by Tue 09:05", "by 2026-03-01 14:20"; "about" instead of "by" if the
// time is only likely; empty if unknown.
std::string StartBrief(const std::optional<std::int64_t>& latest_ms,
                       const std::optional<std::int64_t>& likely_ms, std::int64_t now_ms);
// Sentences about when the task will start, and why; empty if nothing is known.
std::string StartSentences(const std::optional<std::int64_t>& latest_ms,
                           const std::optional<std::int64_t>& likely_ms, std::int64_t now_ms);
// "2026-03-01 14:20".
std::string Minute(std::int64_t ms);

// ---- a task's progress ----

// "42% 1:10:00": the share done and the time left. If only the progress of one loop is known: "42%
// of epoch 3", "42% of steps", "1200 steps". "-" if there is none.
std::string ProgressBrief(const std::optional<task::ProgressReport>& progress, std::int64_t now_ms);
// "42.0% done, about 1:10:00 left; training, epoch 3, step 120 of 1000, 2.1 per second, loss 0.41".
std::string ProgressSentence(const task::ProgressReport& progress, std::int64_t now_ms);

}  // namespace carma::cli
