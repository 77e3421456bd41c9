// `srun` for scripts that were written for Slurm: starts copies of a program on this server, where
// the task runs. What carma-shim puts first into such a script's PATH.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::task {

// Which of the task's GPUs a process sees.
struct GpuBinding {
  int gpus = 0;          // each process sees this many, in turn; 0: all of them
  int processes = 1;     // that share the same ones
  std::vector<int> map;  // or the GPU of each rank, by its place among the task's
};

struct SrunPlan {
  int ntasks = 1;
  std::vector<std::string> gpus;  // the task's, as CUDA_VISIBLE_DEVICES names them
  GpuBinding binding;
  std::string output;  // paths as sbatch has them, %t the copy; empty: inherited
  std::string error;
  std::string chdir;
  bool kill_on_bad_exit = false;
  bool label = false;  // asked for, not done: told once
  std::vector<std::string> command;
};

// arguments: without the program's name; environment: SLURM_NTASKS and the like. Options that
// decide where in a cluster something runs are passed over. Errors: kInvalid, one line: several
// nodes, an unknown option, no command.
base::Result<SrunPlan> PlanSrun(const std::vector<std::string>& arguments,
                                const std::map<std::string, std::string>& environment);

// What one copy's environment differs by, rank from 0.
std::map<std::string, std::string> SrunVariables(
    const SrunPlan& plan, int rank, const std::map<std::string, std::string>& environment);

// Runs all copies to their end; signals to end or to notice reach them. Returns the highest exit
// code, 128 + n for signal n.
int RunSrun(const SrunPlan& plan, const std::map<std::string, std::string>& environment);

}  // namespace carma::task
