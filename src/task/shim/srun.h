// `srun` for scripts written for Slurm: starts copies of a program on this server. carma-shim puts
// srun first in the PATH of such scripts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::task {

// Which of the task's GPUs a process sees.
struct GpuBinding {
  int gpus = 0;          // number of GPUs per process, assigned in turn; 0: all
  int processes = 1;     // number of processes that share these GPUs
  std::vector<int> map;  // alternatively, the position of each rank's GPU
  bool counts = false;   // whether the binding also determines the step's GPU count
};

struct SrunPlan {
  int ntasks = 1;
  // The task's GPUs, as in CUDA_VISIBLE_DEVICES. TakeGpus() reduces this list to the step's GPUs.
  std::vector<std::string> gpus;
  std::optional<int> step_gpus;  // number of GPUs that the step requests; empty: all of the task's
  GpuBinding binding;
  std::optional<int> cpus;  // cores per process
  std::string output;       // paths as in sbatch, where %t is the copy; empty: inherited
  std::string error;
  std::string chdir;
  bool kill_on_bad_exit = false;
  std::vector<std::string> command;
};

// arguments: without the program's name. environment: SLURM_NTASKS and the like. Options that
// choose cluster nodes are ignored. Returns kInvalid with a one-line message for several nodes, an
// unknown option or a missing command.
Result<SrunPlan> PlanSrun(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment);

// If the step requests fewer GPUs than the task has, limits the plan to that many, and waits until
// other steps of the task have freed enough. The step holds its GPUs as long as the result exists.
std::vector<base::UniqueFd> TakeGpus(SrunPlan& plan,
                                     const std::map<std::string, std::string>& environment);

// Returns the variables that differ between copies. rank: starts at 0.
std::map<std::string, std::string> SrunVariables(
    const SrunPlan& plan, int rank, const std::map<std::string, std::string>& environment);

// Runs all copies to completion and forwards signals. Returns the highest exit code; signal n
// counts as 128 + n.
int RunSrun(const SrunPlan& plan, const std::map<std::string, std::string>& environment);

}  // namespace carma::task
