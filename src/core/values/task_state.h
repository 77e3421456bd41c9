// The states of a task, the legal steps between them, and the kinds of queues.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/words.h"

namespace carma::core {

// The states of a task. A task leaves a final state only if a user requeues it.
enum class TaskState : std::uint8_t {
  kSubmitted,   // accepted; its estimate has not been requested yet
  kEstimating,  // waiting for the estimator
  // The task waits for GPUs, a begin time, a dependency, a release or a back-off (see its Reason).
  kQueued,
  kLaunching,  // has its GPUs; its process is being started
  kRunning,
  kStopping,  // asked to end (cancel, time limit, requeue), but its process is still alive
  kSucceeded,
  kFailed,       // failed by itself (non-zero status or signal) or could not be started
  kCancelled,    // cancelled by a user, or its dependency can never be met
  kTimedOut,     // reached its time limit
  kOutOfMemory,  // ran out of GPU memory and has no retries left
  kLost,         // its process disappeared without a report (machine crash)
  kRejected,     // can never fit this server
};
inline constexpr int kTaskStateCount = 13;
inline constexpr std::array<std::pair<TaskState, std::string_view>, kTaskStateCount> kStateWords{{
    {TaskState::kSubmitted, "submitted"},
    {TaskState::kEstimating, "estimating"},
    {TaskState::kQueued, "queued"},
    {TaskState::kLaunching, "launching"},
    {TaskState::kRunning, "running"},
    {TaskState::kStopping, "stopping"},
    {TaskState::kSucceeded, "succeeded"},
    {TaskState::kFailed, "failed"},
    {TaskState::kCancelled, "cancelled"},
    {TaskState::kTimedOut, "timed_out"},
    {TaskState::kOutOfMemory, "out_of_memory"},
    {TaskState::kLost, "lost"},
    {TaskState::kRejected, "rejected"},
}};

// Short codes as in Slurm: "PD", "R", "CG", "CD", "F", "CA", "TO", "OOM", "NF", "RJ".
std::string_view TaskStateCode(TaskState state);
std::optional<TaskState> ParseTaskState(std::string_view name_or_code);
bool IsFinal(TaskState state);
// True if the task may have a running process, so its claim counts.
bool HoldsGpus(TaskState state);
// True if the table of legal steps allows this step.
bool IsLegalStep(TaskState from, TaskState to);

enum class QueueKind : std::uint8_t { kMain, kRecovery };
inline constexpr std::pair<QueueKind, std::string_view> kQueueWords[] = {
    {QueueKind::kMain, "main"},
    {QueueKind::kRecovery, "recovery"},
};

}  // namespace carma::core

// The names of states and queues in messages, the API and the store.
namespace carma {
template <>
inline constexpr base::Words<core::TaskState> base::kWordsOf<core::TaskState> = core::kStateWords;
template <>
inline constexpr base::Words<core::QueueKind> base::kWordsOf<core::QueueKind> = core::kQueueWords;
}  // namespace carma

namespace carma::core {

inline std::string_view TaskStateName(TaskState state) {
  return base::WordOf(state);
}

}  // namespace carma::core
