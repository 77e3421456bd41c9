// `srun` for scripts written for Slurm: starts copies of a program on this server. carma-shim puts
// it first into such a script's PATH.
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
  int gpus = 0;          // GPUs per process, in turn; 0: all
  int processes = 1;     // processes that share them
  std::vector<int> map;  // or the GPU of each rank, as a position
  bool counts = false;   // whether it also decides how many GPUs the step has
};

struct SrunPlan {
  int ntasks = 1;
  std::vector<std::string> gpus;  // of the task, as in CUDA_VISIBLE_DEVICES; then of the step
  std::optional<int> step_gpus;   // how many of them the step asks for; empty: all
  GpuBinding binding;
  std::optional<int> cpus;  // per process
  std::string output;       // paths as in sbatch, %t is the copy; empty: inherited
  std::string error;
  std::string chdir;
  bool kill_on_bad_exit = false;
  std::vector<std::string> command;
};

// arguments: without the program's name; environment: SLURM_NTASKS and the like. Options that
// choose nodes of a cluster are ignored. Errors: kInvalid, one line: several nodes, an unknown
// option, no command.
Result<SrunPlan> PlanSrun(const std::vector<std::string>& arguments,
                          const std::map<std::string, std::string>& environment);

// If the step asks for fewer GPUs than the task has, leaves only the step's GPUs in the plan.
// Blocks until enough GPUs are free of other steps of the task. The step holds them as long as the
// result exists.
std::vector<base::UniqueFd> TakeGpus(SrunPlan& plan,
                                     const std::map<std::string, std::string>& environment);

// The variables that differ between copies; rank from 0.
std::map<std::string, std::string> SrunVariables(
    const SrunPlan& plan, int rank, const std::map<std::string, std::string>& environment);

// Runs all copies to their end and forwards signals. Returns the highest exit code, 128 + n for
// signal n.
int RunSrun(const SrunPlan& plan, const std::map<std::string, std::string>& environment);

}  // namespace carma::task
