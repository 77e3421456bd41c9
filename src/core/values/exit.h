// How an attempt ends: why it was stopped, and how its process ended.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/words.h"

namespace carma::core {

enum class StopCause {
  kNone,
  kCancel,
  kTimeLimit,
  kRequeue,
  kGpuLost,
  kIdle,
  kTimeSlot,   // its time slice was over while other tasks waited
  kPreempted,  // a task of a preempting class needed the GPU
  kDrained,    // its GPU had to be vacated
};
inline constexpr std::pair<StopCause, std::string_view> kStopWords[] = {
    {StopCause::kNone, "none"},
    {StopCause::kCancel, "cancel"},
    {StopCause::kTimeLimit, "time_limit"},
    {StopCause::kRequeue, "requeue"},
    {StopCause::kGpuLost, "gpu_lost"},
    {StopCause::kIdle, "idle"},
    {StopCause::kTimeSlot, "time_slot"},
    {StopCause::kPreempted, "preempted"},
    {StopCause::kDrained, "drained"},
};

enum class ExitKind {
  kSuccess,
  kFailed,       // the task exited with a non-zero status or was killed by a signal
  kOutOfMemory,  // abnormal end with evidence found by task/verdict/oom_detect.h
  kHostMemory,   // ran out of host memory; fails, because a bigger GPU would not help
  kVictim,       // failed because of a neighbour's fault (MPS); does not count against the task
  kLost,         // the process is gone and left no report
  kGpuFault,     // the program caused a fault on the GPU; counts as the task's failure
  // The GPU itself failed. The task restarts on another GPU, and the failure does not count against
  // the task.
  kDeviceFault,
};
inline constexpr std::pair<ExitKind, std::string_view> kExitWords[] = {
    {ExitKind::kSuccess, "success"},
    {ExitKind::kFailed, "failed"},
    {ExitKind::kOutOfMemory, "out_of_memory"},
    {ExitKind::kHostMemory, "host_memory"},
    {ExitKind::kVictim, "victim"},
    {ExitKind::kLost, "lost"},
    {ExitKind::kGpuFault, "gpu_fault"},
    {ExitKind::kDeviceFault, "device_fault"},
};
struct ExitInfo {
  ExitKind kind = ExitKind::kSuccess;
  int code = 0;    // exit status; 0 if signalled
  int signal = 0;  // 0 if it exited
  // One printable line that explains the end, such as the framework's own OOM message.
  std::string detail;
  friend bool operator==(const ExitInfo&, const ExitInfo&) = default;
};

}  // namespace carma::core

// The names of exit kinds and stop causes in messages, the API and the store.
namespace carma {
template <>
inline constexpr base::Words<core::ExitKind> base::kWordsOf<core::ExitKind> = core::kExitWords;
template <>
inline constexpr base::Words<core::StopCause> base::kWordsOf<core::StopCause> = core::kStopWords;
}  // namespace carma
