// The behaviour of carma-simtask, a process that acts like a training task on simulated GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/simgpu/framework_text.h"
#include "lab/simgpu/mps_wire.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// Shares of the work ("at") range from 0 to 1; time spans are simulated seconds.
struct TrainingOptions {
  std::string state_path;
  // CUDA_VISIBLE_DEVICES: UUIDs, prefixes of UUIDs, or indices. Empty if the variable is not set;
  // the task then uses the first GPU.
  std::optional<std::string> visible_devices;
  // CUDA_MPS_PIPE_DIRECTORY, where an MPS control daemon might be listening; empty means no MPS.
  std::string mps_pipes;
  MpsMemoryLimits mps_memory_limits;   // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
  double mps_thread_percentage = 100;  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
  std::string mps_partition;           // CUDA_MPS_SM_PARTITION

  // One value per GPU; the last value also applies to any further GPUs.
  std::vector<std::int64_t> memory_mib = {300};
  std::vector<double> sm_active = {0.5};  // per GPU, like memory_mib
  double sensitivity = 0.7;
  double pressure = 0.5;
  double solo_s = 0;  // work when running alone on an A100-40GB; 0: allocate, free and exit
  double load_s = 0;  // from process start to the first allocation
  // Share of the memory for parameters and optimizer states; the first batch allocates the rest.
  double first_batch_share = 0.6;
  double crash_s = 8;  // from the failed allocation until the process exits
  int epochs = 10;
  Framework framework = Framework::kPyTorch;

  std::optional<double> grow_at;
  std::int64_t grow_mib = 0;
  std::optional<double> fail_at;
  int exit_code = 1;
  std::optional<double> kill_self_at;
  int signal = 9;
  std::optional<double> hang_at;
  std::optional<double> fault_at;  // point at which the task's kernel accesses an illegal address
  int xid = 31;                    // error that the driver reports; 0: none
  bool ignore_term = false;
  bool double_fork = false;
  bool tell_memory = false;
  std::int64_t log_flood_bytes = 0;
  bool warn_oom = false;
  int checkpoint_signal = 0;  // 0: none
  std::string checkpoint_file;
};

// Runs the task to completion in this process and returns the exit code: 0, kOomExitCode, 2 (no
// server, no such GPU, conflicting options), 143 after SIGTERM, or the code set in the options.
// Installs signal handlers. Prints progress to standard output and errors to standard error.
int RunTraining(const TrainingOptions& options);

// Start time of this process, in CLOCK_BOOTTIME. The kernel's 10 ms ticks would be too coarse: on a
// fast simulated server, one tick can be several seconds.
std::int64_t ProcessStartNs();

}  // namespace carma::simgpu
