// Slurm's options and variables, and the environment that a batch script with #SBATCH lines
// expects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/task_request.h"

namespace carma::task {

// Options from #SBATCH lines, by long name. If an option occurs several times, its last value is
// used. A switch has the value "".
using SlurmWords = std::map<std::string, std::string, std::less<>>;
using SlurmVariables = std::map<std::string, std::string>;

// An option of sbatch or srun, even if it has no effect in CARMA: the parser must know whether the
// next word is the option's value.
struct SlurmOption {
  std::string_view name;
  char letter;  // 0: none
  bool takes_value;
};
// The option with this long name or letter, both without dashes; null if there is none.
const SlurmOption* FindSlurmOption(std::string_view name);
// The option of CARMA's srun with this long name or letter; null if there is none.
const SlurmOption* FindSrunOption(std::string_view name);

// A word that starts an option, split into its parts: "--gpus=2", "--gpus", "-G2", "-G".
struct OptionWord {
  std::string name;
  std::optional<std::string> value;
};
std::optional<OptionWord> TakeApart(const std::string& word);

// Number of processes that srun starts on this one node: --ntasks, --ntasks-per-node, or
// --ntasks-per-gpu for each of the job's GPUs. Empty if the options do not specify it.
std::optional<std::int64_t> ProcessesOf(const SlurmWords& words, int gpus);

// Variables derived from the script's options, such as SLURM_CPUS_PER_TASK from --cpus-per-task.
// Values that cannot be parsed (for example memory with an unknown unit) are omitted. gpus: the
// job's GPU count.
SlurmVariables VariablesOf(const SlurmWords& words, int gpus);

// Total number of GPUs used by the script's processes. Empty unless the options specify GPUs per
// process, or processes per GPU, without a total.
std::optional<int> GpusOf(const SlurmWords& words);

// Fills in the total cores and host memory of all processes, unless the description sets them. The
// options may specify memory per node, core or GPU. task.gpus must already be set. Ignores
// `--mem=0` (the whole node). Returns one sentence for each value that cannot be parsed.
std::vector<std::string> FillHost(const SlurmWords& words, core::TaskRequest& task);

// SLURM_ARRAY_TASK_COUNT, _MIN, _MAX and _STEP for these indices (ascending).
SlurmVariables VariablesOfArray(const std::vector<std::int64_t>& indices);

// Returns true if Slurm or sbatch sets or reads this variable for a job. SLURM_CONF is not such a
// variable: without it, a task could not run Slurm's commands.
bool IsSlurmVariable(std::string_view name);

}  // namespace carma::task
