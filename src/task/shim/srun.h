// `srun` for scripts written for Slurm: starts copies of a program on this server. carma-shim puts
// it first into such a script's PATH.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::task {

// Which of the task's GPUs a process sees.
struct GpuBinding {
  int gpus = 0;          // GPUs per process, in turn; 0: all
  int processes = 1;     // processes that share them
  std::vector<int> map;  // or the GPU of each rank, as a position
};

struct SrunPlan {
  int ntasks = 1;
  std::vector<std::string> gpus;  // of the task, as in CUDA_VISIBLE_DEVICES
  GpuBinding binding;
  std::string output;  // paths as in sbatch, %t is the copy; empty: inherited
  std::string error;
  std::string chdir;
  bool kill_on_bad_exit = false;
  bool label = false;  // requested but unsupported: warned once
  std::vector<std::string> command;
};

// arguments: without the program's name; environment: SLURM_NTASKS and the like. Options that
// choose nodes of a cluster are ignored. Errors: kInvalid, one line: several nodes, an unknown
// option, no command.
base::Result<SrunPlan> PlanSrun(const std::vector<std::string>& arguments,
                                const std::map<std::string, std::string>& environment);

// The variables that differ between copies; rank from 0.
std::map<std::string, std::string> SrunVariables(
    const SrunPlan& plan, int rank, const std::map<std::string, std::string>& environment);

// Runs all copies to their end and forwards signals. Returns the highest exit code, 128 + n for
// signal n.
int RunSrun(const SrunPlan& plan, const std::map<std::string, std::string>& environment);

}  // namespace carma::task
