#include "task/describe/slurm.h"

#include <array>
#include <utility>

#include "base/text.h"
#include "core/task.h"

namespace carma::task {
namespace {

struct Passed {
  std::string_view option;
  std::array<std::string_view, 2> variables;  // the second may be empty
};
constexpr std::array kPassedOn{
    Passed{"account", {"SLURM_JOB_ACCOUNT", ""}},
    Passed{"cpus-per-gpu", {"SLURM_CPUS_PER_GPU", ""}},
    Passed{"cpus-per-task", {"SLURM_CPUS_PER_TASK", ""}},
    Passed{"gpus", {"SLURM_GPUS", ""}},
    Passed{"gpus-per-node", {"SLURM_GPUS_PER_NODE", ""}},
    Passed{"gpus-per-task", {"SLURM_GPUS_PER_TASK", ""}},
    Passed{"ntasks", {"SLURM_NTASKS", "SLURM_NPROCS"}},
    Passed{"ntasks-per-node", {"SLURM_NTASKS_PER_NODE", ""}},
    Passed{"partition", {"SLURM_JOB_PARTITION", ""}},
    Passed{"qos", {"SLURM_JOB_QOS", ""}},
};
// Amounts of memory, which Slurm gives in MiB.
constexpr std::array kMemory{
    std::pair{"mem", "SLURM_MEM_PER_NODE"},
    std::pair{"mem-per-cpu", "SLURM_MEM_PER_CPU"},
    std::pair{"mem-per-gpu", "SLURM_MEM_PER_GPU"},
};

}  // namespace

SlurmVariables VariablesOf(const SlurmWords& words) {
  SlurmVariables variables;
  for (const Passed& passed : kPassedOn) {
    const auto found = words.find(passed.option);
    if (found == words.end() || found->second.empty()) continue;
    for (const std::string_view name : passed.variables) {
      if (!name.empty()) variables.emplace(name, found->second);
    }
  }
  for (const auto& [option, name] : kMemory) {
    const auto found = words.find(option);
    if (found == words.end()) continue;
    if (const auto mib = base::ParseMemoryMib(found->second))
      variables[name] = std::to_string(*mib);
  }
  return variables;
}

std::optional<int> GpusOf(const SlurmWords& words) {
  const auto count = [&](std::string_view option) {
    const auto found = words.find(option);
    return found == words.end() ? std::nullopt : base::ParseInt(found->second);
  };
  for (const std::string_view all : {"gpus", "gres", "gpus-per-node"}) {
    if (words.contains(all)) return std::nullopt;
  }
  const std::optional<std::int64_t> each = count("gpus-per-task");
  const std::int64_t tasks = count("ntasks").value_or(count("ntasks-per-node").value_or(1));
  if (!each || *each < 1 || tasks < 1 || *each > core::kMaxGpus || tasks > core::kMaxGpus)
    return std::nullopt;
  return static_cast<int>(*each * tasks);
}

SlurmVariables VariablesOfArray(const std::vector<std::int64_t>& indices) {
  if (indices.empty()) return {};
  const std::int64_t step = indices.size() > 1 ? indices[1] - indices[0] : 1;
  return {{"SLURM_ARRAY_TASK_COUNT", std::to_string(indices.size())},
          {"SLURM_ARRAY_TASK_MIN", std::to_string(indices.front())},
          {"SLURM_ARRAY_TASK_MAX", std::to_string(indices.back())},
          {"SLURM_ARRAY_TASK_STEP", std::to_string(step)}};
}

bool IsSlurmVariable(std::string_view name) {
  for (const std::string_view prefix : {"SLURM_", "SLURMD_", "SBATCH_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace carma::task
