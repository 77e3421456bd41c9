// What a batch script with #SBATCH lines expects to find in its environment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/task.h"

namespace carma::task {

// Options of #SBATCH lines by their long names, the last value of each; "" for a switch.
using SlurmWords = std::map<std::string, std::string, std::less<>>;
using SlurmVariables = std::map<std::string, std::string>;

// An option of sbatch, and mostly of srun, that chooses in a cluster: known, so that its value is
// not taken for something else.
struct SlurmOption {
  std::string_view name;
  char letter;  // 0: none
  bool takes_value;
};
// By long name or by letter, both without dashes; null: none.
const SlurmOption* FindSlurmOption(std::string_view name);
// An option that srun takes and CARMA's srun does not refuse, likewise.
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

// The variables that the script's own lines decide: SLURM_CPUS_PER_TASK of --cpus-per-task, and so
// on. What cannot be read (an amount of memory with a strange unit) is left out. gpus: of the job.
SlurmVariables VariablesOf(const SlurmWords& words, int gpus);

// GPUs of all its processes, where the options state GPUs for each, or processes for each GPU, and
// no total.
std::optional<int> GpusOf(const SlurmWords& words);

// Fills in cores and memory of the server, where the description does not say them itself: cores of
// all its tasks, memory of the node, or for each core or GPU. The GPUs must be known. `--mem=0`,
// all of the node, is nothing here. Returns what could not be read, a sentence each.
std::vector<std::string> FillHost(const SlurmWords& words, core::TaskRequest& task);

// SLURM_ARRAY_TASK_COUNT, _MIN, _MAX and _STEP of these indices (rising).
SlurmVariables VariablesOfArray(const std::vector<std::int64_t>& indices);

// A variable that Slurm or sbatch sets or reads.
bool IsSlurmVariable(std::string_view name);

}  // namespace carma::task
