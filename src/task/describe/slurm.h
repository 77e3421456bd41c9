// The environment that a batch script with #SBATCH lines expects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/task_request.h"

namespace carma::task {

// Options of #SBATCH lines by their long names, the last value of each; "" for a switch.
using SlurmWords = std::map<std::string, std::string, std::less<>>;
using SlurmVariables = std::map<std::string, std::string>;

// An option of sbatch (and usually srun) that only matters in a cluster. It is known so that its
// value is not taken for another word.
struct SlurmOption {
  std::string_view name;
  char letter;  // 0: none
  bool takes_value;
};
// The option with this long name or letter, both without dashes; null: none.
const SlurmOption* FindSlurmOption(std::string_view name);
// The same for the options of srun that CARMA's srun accepts.
const SlurmOption* FindSrunOption(std::string_view name);

// One word that starts an option, taken apart: "--gpus=2", "--gpus", "-G2", "-G".
struct OptionWord {
  std::string name;
  std::optional<std::string> value;
};
std::optional<OptionWord> TakeApart(const std::string& word);

// How many processes srun starts on this one node: --ntasks, --ntasks-per-node, or
// --ntasks-per-gpu for each of the job's GPUs; empty: the options state none.
std::optional<std::int64_t> ProcessesOf(const SlurmWords& words, int gpus);

// The variables that follow from the script's lines: SLURM_CPUS_PER_TASK from --cpus-per-task, and
// so on. Unreadable values (an amount of memory with an unknown unit) are left out. gpus: the job's
// number of GPUs.
SlurmVariables VariablesOf(const SlurmWords& words, int gpus);

// Total GPUs of its processes, if the options state GPUs per process, or processes per GPU, but no
// total.
std::optional<int> GpusOf(const SlurmWords& words);

// Fills in cores and host memory if the description does not state them: cores of all its tasks,
// memory per node, core or GPU. The number of GPUs must be known. `--mem=0`, the whole node, is
// ignored. Returns a sentence per unreadable value.
std::vector<std::string> FillHost(const SlurmWords& words, core::TaskRequest& task);

// SLURM_ARRAY_TASK_COUNT, _MIN, _MAX and _STEP of these indices (ascending).
SlurmVariables VariablesOfArray(const std::vector<std::int64_t>& indices);

// A variable that Slurm or sbatch sets or reads.
bool IsSlurmVariable(std::string_view name);

}  // namespace carma::task
