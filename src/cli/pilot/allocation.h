// What a job of a cluster was given, as its environment says. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "config/pilot_socket.h"

namespace carma::cli {

struct Allocation {
  std::string job;  // Slurm's number; empty: not in a job
  // Names for daemon.gpus; absent: nothing says which, and outside a job all of the machine are
  // meant.
  std::optional<std::vector<std::string>> gpus;
  std::optional<int> cpus;
  std::optional<std::int64_t> memory_mib;
  std::optional<base::Time> ends;  // by the clock of this machine
};

// The GPUs are those that this process may use (CUDA_VISIBLE_DEVICES: within a control group of
// devices it counts the group's own), else those that Slurm names for the step or the job. Errors:
// kInvalid, each with what to do instead: no node of the job, several nodes, no GPU. named_gpus:
// somebody says which, so that no GPU in the environment is no mistake.
base::Result<Allocation> ReadAllocation(const config::Environment& environment, bool named_gpus);

}  // namespace carma::cli
