// Builds a task's environment without running a shell.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "task/process/user.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

using Environment = std::map<std::string, std::string>;

struct CondaEnv {
  std::string prefix;  // absolute; programs are in <prefix>/bin
  std::string name;    // as given
  // Set with `conda env config vars set`, which stores them in <prefix>/conda-meta/state. Empty if
  // the file cannot be read.
  Environment variables = {};
};

// Finds a conda environment (or any folder with a bin/, such as a virtualenv) by absolute path or
// by name. Names are looked up where conda looks: in CONDA_ENVS_PATH, under the roots given by
// CONDA_ROOT, MAMBA_ROOT_PREFIX and CONDA_EXE, in ~/.conda/envs, in the usual folders in the home
// directory, and in /opt/conda. "base" means a root itself. Needs the user's privileges. is_folder:
// called with <prefix>/bin. Returns kNotFound with a list of the places searched.
Result<CondaEnv> FindCondaEnv(const std::string& name_or_path, const Environment& environment,
                              const std::string& home,
                              const std::function<bool(const std::string&)>& is_folder);

// The task's environment. Later sources override earlier ones:
//   - defaults, only where missing: HOME USER LOGNAME SHELL PATH PYTHONUNBUFFERED
//   - the submitter's variables
//   - the conda environment; conda: null if there is none
//   - Slurm's variables, for a script written for Slurm
//   - CARMA's own: CUDA_VISIBLE_DEVICES (by UUID) CUDA_DEVICE_ORDER CARMA_TASK_ID CARMA_ATTEMPT
//     CARMA_TASK_NAME CARMA_ARRAY_INDEX CARMA_PARAM_* CARMA_CPUS CARMA_HOST_MEMORY_MIB
//     NVIDIA_VISIBLE_DEVICES CARMA_CONTAINER_GROUP CARMA_RESTARTS CARMA_CHECKPOINT_*
//     CARMA_ATTEMPT_DIR PWD
//   - the order's extra_environment
Environment TaskEnvironment(const ShimOrder& order, const UserInfo& user, const CondaEnv* conda,
                            const std::string& attempt_dir);

// The variable's value; empty if it is not set.
std::string Lookup(const Environment& environment, const std::string& name);

// Formats each variable as "NAME=value", as execve() expects.
std::vector<std::string> ToBlock(const Environment& environment);

// The folder of CARMA's srun, sbatch, scancel and scontrol for scripts written for Slurm.
std::string StandInFolder();

// The interpreter line of a script.
struct Shebang {
  std::string interpreter;  // absolute
  std::string argument;     // the rest of the line, passed as one argument by the kernel; or empty
};
// Returns true for a Bourne-like shell that reads the user's profile first, such as "/bin/bash -l".
bool IsLoginShell(const Shebang& shebang);
// Returns kInvalid, with a message for the submitter, if the line lacks "#!" or an absolute path or
// has a DOS line ending.
Result<Shebang> ParseShebang(std::string_view script);

}  // namespace carma::task
