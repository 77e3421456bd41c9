// How an attempt ends: why it is stopped, and how its process ended.
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
  kTimeSlot,   // its time slice was over, others waited
  kPreempted,  // a task of a preempting class needed the place
  kDrained,    // its GPU had to be empty
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
  kFailed,       // non-zero exit or signal of its own
  kOutOfMemory,  // abnormal end with the evidence of task/verdict/oom_detect.h
  kHostMemory,   // killed for host memory: a failure, a bigger GPU would not help
  kVictim,       // ended by a neighbour's fault (MPS): not charged
  kLost,         // no report, the process is gone
  kGpuFault,     // a fault on the GPU that the program caused itself: a failure with its own name
  kDeviceFault,  // the GPU's own fault: not charged, starts again elsewhere
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
  // The line that explains the end, such as the framework's own OOM message; one line, printable.
  std::string detail;
  friend bool operator==(const ExitInfo&, const ExitInfo&) = default;
};

}  // namespace carma::core

// Their names in messages, the API and the store.
namespace carma {
template <>
inline constexpr base::Words<core::ExitKind> base::kWordsOf<core::ExitKind> = core::kExitWords;
template <>
inline constexpr base::Words<core::StopCause> base::kWordsOf<core::StopCause> = core::kStopWords;
}  // namespace carma
