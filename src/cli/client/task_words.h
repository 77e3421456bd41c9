// Words about a task that its row, its facts and its waiting have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/views.h"
#include "cli/terminal.h"
#include "core/values/task.h"

namespace carma::cli {

// Empty: a state that this command does not know.
std::optional<core::TaskState> StateOf(const api::TaskView& task);
// "succeeded", "failed with exit code 3", "ended by signal 9 (Killed)", "cancelled" …
std::string EndText(const api::TaskView& task);
// What a program that waited for the task should exit with: 0 if it succeeded, its own code,
// 128 + signal, and 1 for one that ended otherwise.
int ExitCodeOf(const api::TaskView& task);
bool HasEnded(const api::TaskView& task);
// A process of it may live.
bool HoldsGpus(const api::TaskView& task);
// "PD", "R" …; its own word where the state is not known.
std::string StateCode(const api::TaskView& task);
Colour StateColour(const api::TaskView& task);

// One printable line; "-" for nothing.
std::string Line(const std::string& text);
// By the reader's clock; "-" for none.
std::string TimePoint(const std::optional<std::int64_t>& ms);
// "2:30:00"; nothing is shorter than 0.
std::string SpanText(std::int64_t from_ms, std::int64_t until_ms);
// In use by the current attempt, or by the last one when it has ended.
std::string TimeText(const api::TaskView& task, std::int64_t now_ms);
std::string GpuIndices(const api::TaskView& task);  // "0,2"
// It holds GPUs that others wait for.
bool IsIdle(const api::TaskView& task);
// "lr=0.1 seed=3", "-" outside of a sweep.
std::string ParametersText(const api::TaskView& task);
// The moments in a text of the daemon, which has them in UTC ("2026-03-01T13:05:59.120Z"), by the
// reader's clock.
std::string LocalTimes(std::string_view text);
std::string CommandText(const api::TaskView& task);

}  // namespace carma::cli
