// Determines why an attempt ended: out of GPU memory (an abnormal end AND separate evidence), a
// device fault of its GPU, a GPU fault caused by its own program, a neighbour's fault, or another
// cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/values/exit.h"

namespace carma::task {

// Facts about the end of one attempt.
struct ExitEvidence {
  int exit_code = 0;
  int signal = 0;
  bool lost = false;
  bool host_oom = false;         // the cgroup's memory.events counted an oom_kill
  bool stopped_by_us = false;    // CARMA had sent TERM, so this is not an OOM
  std::string_view stderr_tail;  // last output of this task only
  // Peak share of the device's usable memory in use just before the end (last 2 s of samples);
  // empty if there are no samples.
  std::optional<double> device_full;
  // The driver's report on the task's GPUs just before the end, such as "Xid 79: fell off the bus";
  // empty if there was none. A device fault affects all tasks on the GPU; a program fault affects
  // only its own task.
  std::string device_fault;
  std::string program_fault;
  bool neighbours = false;  // other tasks were on its GPUs
  // From the kernel's log, if readable: whether a process of this task caused a fault, or which
  // other task ("task 7") did.
  bool made_fault = false;
  std::string fault_of;
  bool mps_client = false;  // client of an MPS server that other tasks may share
  // True if the task's MPS server died or entered a faulted state while the task ran.
  bool server_broke = false;
  bool neighbour_blamed = false;  // another task of this server was held responsible
};

// The last line about a lack of GPU memory, in printable form; empty if there is none. Recognises
// the messages of PyTorch, TensorFlow, JAX, CUDA and cuBLAS/cuDNN listed in docs/use/tasks.md.
// Reads only the last 16 KiB and 200 lines, because the program survived any earlier message. The
// line may be a TensorFlow log line that the task survived; ClassifyExit decides whether it counts.
std::optional<std::string> FindOomText(std::string_view stderr_tail);

// Size of the failed allocation in a PyTorch or JAX out-of-memory line, in MiB, rounded up. 0 if
// the line does not contain it or if it is more than any GPU has.
std::int64_t TriedToAllocateMib(std::string_view oom_text);

// The last line in which CUDA reports a fault on the GPU (an illegal address, a failed assertion, a
// failed launch), in printable form; empty if there is none. Under MPS, every client on the GPU may
// get the same message.
std::optional<std::string> FindGpuFaultText(std::string_view stderr_tail);
// Returns true if the last lines contain any error from CUDA or its libraries. Programs print such
// errors if their GPU is lost.
bool SpeaksOfCudaError(std::string_view stderr_tail);
// The last line that reports that the MPS server failed or terminated its client (CUDA errors 806,
// 807 and 810), in printable form; empty if there is none.
std::optional<std::string> FindMpsFaultText(std::string_view stderr_tail);

// Returns the verdict with the line or number that decided it. An exit code of 128 + n counts as
// abnormal like any other non-zero code. If the attempt ended abnormally, was not stopped by CARMA
// and did not lack host memory, the first matching rule decides:
//   kOutOfMemory: the output reports a lack of GPU memory. A TensorFlow log line counts only if it
//     is followed neither by a Python exception of a different kind nor by a message about a broken
//     MPS server. A failed cuBLAS or cuDNN allocation counts only if the device was at least 90 %
//     full, or if this is unknown.
//   kDeviceFault: device_fault is set.
//   kVictim: never if made_fault. Otherwise, one of:
//     - The output reports an MPS server fault.
//     - The task is an mps_client, its output reports a GPU fault, and fault_of names the task that
//       caused it.
//     - server_broke is set. If the output reports a GPU fault, neighbour_blamed must be set as
//       well. Otherwise, the output must not contain an unrelated exception.
//   kGpuFault: the output reports a GPU fault that only a program can cause, or any GPU fault
//     together with program_fault. Without such a report: program_fault together with made_fault or
//     without neighbours, unless the output contains an unrelated exception.
//   kOutOfMemory: the device was at least 98 % full. Does not count if the output contains an
//     unrelated exception, or if the task was killed from outside (HUP, INT, QUIT, KILL, TERM).
//   kFailed: otherwise.
// An exception is unrelated if it is the last Python exception in the output and has nothing to do
// with GPU memory.
core::ExitInfo ClassifyExit(const ExitEvidence& evidence);

}  // namespace carma::task
