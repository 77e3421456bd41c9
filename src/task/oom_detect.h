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

// A line of the text that says "out of GPU memory", or empty: PyTorch, TensorFlow, JAX, CUDA,
// cuBLAS/cuDNN forms of NVIDIA.md §6. Warnings that the same frameworks print and survive do count
// here; ClassifyExit asks for the abnormal end.
std::optional<std::string> FindOomText(std::string_view stderr_tail);

// The verdict with the line or the number that tells.
core::ExitInfo ClassifyExit(const ExitEvidence& evidence);

}  // namespace carma::task
