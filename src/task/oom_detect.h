// Decides whether an attempt ended for lack of GPU memory: abnormal end AND evidence of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/task.h"

namespace carma::task {

// Facts about the end of one attempt.
struct ExitEvidence {
  int exit_code = 0;
  int signal = 0;
  bool lost = false;
  bool host_oom = false;         // cgroup memory.events counted an oom_kill
  bool stopped_by_us = false;    // we had sent TERM: never an OOM
  std::string_view stderr_tail;  // of this task only
  // Highest share of the device's usable memory in use just before the end (last 2 s of samples);
  // empty: no sample.
  std::optional<double> device_full;
};

// The last line that says "out of GPU memory", printable, or empty: PyTorch, TensorFlow, JAX, CUDA,
// cuBLAS/cuDNN forms of docs/tasks.md. Only the last 16 KiB and 200 lines are read: what stands
// further up was survived. Warnings that TensorFlow prints and survives do count here;
// ClassifyExit weighs them.
std::optional<std::string> FindOomText(std::string_view stderr_tail);

// The verdict with the line or the number that tells.
//   kOutOfMemory: abnormal end, not stopped by us, no host_oom, and one of
//     - a text that says so. A log line of TensorFlow counts only if no Python exception of another
//       kind follows; a failed allocation of cuBLAS or cuDNN only if the device was at least 90 %
//       full (or nobody knows);
//     - the device at least 98 % full, unless its last words name another error or it was ended
//       from outside (HUP, INT, QUIT, KILL, TERM).
//   kVictim: the text of an MPS server fault (CUDA errors 806, 807, 810).
//   An exit code of 128 + n counts as abnormal like any other non-zero code.
core::ExitInfo ClassifyExit(const ExitEvidence& evidence);

}  // namespace carma::task
