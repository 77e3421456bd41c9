// Reads the resources of a cluster job from its environment, without side effects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "config/client_socket.h"

namespace carma::cli {

struct Allocation {
  std::string job;  // Slurm's job number; empty outside a job
  // The GPUs, in the format of daemon.gpus. Empty if the environment does not list them; outside a
  // job, the pilot then uses all GPUs of the machine.
  std::optional<std::vector<std::string>> gpus;
  std::optional<int> cpus;
  std::optional<std::int64_t> memory_mib;
  std::optional<base::Time> ends;  // on this machine's clock
};

// Takes the GPUs from CUDA_VISIBLE_DEVICES, which numbers only the GPUs in the device cgroup. If it
// is not set, takes them from Slurm's variables for the step or the job. named_gpus: the user lists
// the GPUs, so the environment need not name any. Returns kInvalid, with advice, if this is not a
// node of the job, the job has several nodes, or there is no GPU.
Result<Allocation> ReadAllocation(const config::Environment& environment, bool named_gpus);

// ---- the end time of a Slurm job, which is not in its environment before Slurm 23.02 ----

// Parses the output of `squeue -h -o %e`, a local time; empty for "NONE" or "N/A".
std::optional<base::Time> ParseJobEnd(std::string_view text);

// Runs squeue for a few seconds at most. Returns empty if there is no squeue, or if it reports no
// time.
std::optional<base::Time> AskJobEnd(const std::string& job);

}  // namespace carma::cli
