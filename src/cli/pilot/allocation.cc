#include "cli/pilot/allocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cpu_list.h"
#include "base/program_output.h"
#include "base/text.h"
#include "base/try.h"
#include "task/describe/option_values.h"

namespace carma::cli {
namespace {

std::string ValueOf(const config::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : std::string(base::Trim(found->second));
}

std::optional<std::int64_t> NumberOf(const config::Environment& environment, const char* name) {
  return base::ParseInt(ValueOf(environment, name));
}

// The entries before the first invalid one, because CUDA ignores the rest. Older versions of Slurm
// write "NoDevFiles" for a job without GPUs.
std::vector<std::string> VisibleGpus(const std::string& list) {
  std::vector<std::string> gpus;
  for (const std::string_view each : base::Split(list, ',')) {
    const std::string_view name = base::Trim(each);
    if (name.empty() || name.starts_with('-') || name == "NoDevFiles") break;
    gpus.emplace_back(name);
  }
  return gpus;
}

// Parses "0,1" or "0-3".
std::optional<std::vector<std::string>> SlurmGpus(const std::string& list) {
  const std::optional<std::vector<int>> numbers = base::ParseCpuList(list);
  if (!numbers || numbers->empty()) return std::nullopt;
  std::vector<std::string> gpus;
  for (const int number : *numbers) gpus.push_back(fmt::format("{}", number));
  return gpus;
}

std::optional<std::vector<std::string>> GpusOf(const config::Environment& environment) {
  if (environment.contains("CUDA_VISIBLE_DEVICES"))
    return VisibleGpus(ValueOf(environment, "CUDA_VISIBLE_DEVICES"));
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    if (auto gpus = SlurmGpus(ValueOf(environment, name))) return gpus;
  }
  return std::nullopt;
}

std::optional<std::int64_t> MemoryOf(const config::Environment& environment,
                                     const Allocation& allocation) {
  // 0 means all of the node's memory, as with --mem=0.
  const auto told = [](std::optional<std::int64_t> mib) { return mib && *mib > 0; };
  if (const auto mib = NumberOf(environment, "SLURM_MEM_PER_NODE"); told(mib)) return mib;
  const auto per_cpu = NumberOf(environment, "SLURM_MEM_PER_CPU");
  if (told(per_cpu) && allocation.cpus) return *per_cpu * *allocation.cpus;
  const auto per_gpu = NumberOf(environment, "SLURM_MEM_PER_GPU");
  if (told(per_gpu) && allocation.gpus)
    return *per_gpu * static_cast<std::int64_t>(allocation.gpus->size());
  return std::nullopt;
}

Result<Unit> CheckPlace(const config::Environment& environment, const std::string& job) {
  if (job.empty()) return Unit{};
  if (!environment.contains("SLURMD_NODENAME")) {
    return Invalid(
        "this is not a node of job {}; run 'srun carma pilot', or 'carma pilot' in a batch script",
        job);
  }
  const bool step = environment.contains("SLURM_STEP_ID");
  const std::int64_t nodes = NumberOf(environment, "SLURM_JOB_NUM_NODES").value_or(1);
  if (step || nodes <= 1) return Unit{};
  return Invalid(
      "job {} has {} nodes, but a pilot serves one; start a pilot with its own name on each: srun "
      "--ntasks-per-node=1 sh -c 'carma pilot --name NAME-$SLURM_NODEID'",
      job, nodes);
}

Result<Unit> CheckGpus(const Allocation& allocation) {
  if (allocation.gpus ? !allocation.gpus->empty() : allocation.job.empty()) return Unit{};
  const std::string whose =
      allocation.job.empty() ? "this environment" : fmt::format("job {}", allocation.job);
  return Invalid(
      "{} has no GPU in CUDA_VISIBLE_DEVICES or SLURM_JOB_GPUS; request GPUs for the job "
      "(--gres=gpu:2), or use --gpus LIST",
      whose);
}

constexpr std::size_t kMaxAnswer = 4096;

}  // namespace

Result<Allocation> ReadAllocation(const config::Environment& environment, bool named_gpus) {
  Allocation allocation;
  allocation.job = ValueOf(environment, "SLURM_JOB_ID");
  if (allocation.job.find_first_not_of("0123456789") != std::string::npos) {
    return Invalid("SLURM_JOB_ID: expected a number, not '{}'",
                   base::Printable(allocation.job, 40));
  }
  CARMA_TRY(CheckPlace(environment, allocation.job));
  allocation.gpus = GpusOf(environment);
  if (!named_gpus) CARMA_TRY(CheckGpus(allocation));
  if (allocation.job.empty()) return allocation;
  if (const auto cpus = NumberOf(environment, "SLURM_CPUS_ON_NODE"); cpus && *cpus > 0)
    allocation.cpus = static_cast<int>(std::min<std::int64_t>(*cpus, INT32_MAX));
  allocation.memory_mib = MemoryOf(environment, allocation);
  if (const auto ends = NumberOf(environment, "SLURM_JOB_END_TIME"); ends && *ends > 0)
    allocation.ends = base::FromMs(*ends * 1000);
  return allocation;
}

std::optional<base::Time> ParseJobEnd(std::string_view text) {
  const std::string_view word = base::Trim(text);
  // Anything that is not a date is rejected, because ParseBegin would accept words such as "now".
  if (word.empty() || word[0] < '0' || word[0] > '9') return std::nullopt;
  const Result<base::Time> time = task::ParseBegin(word, base::Time{});
  return time ? std::optional(*time) : std::nullopt;
}

std::optional<base::Time> AskJobEnd(const std::string& job) {
  return ParseJobEnd(
      base::OutputOf({"squeue", "--noheader", "--jobs", job, "--format", "%e"}, kMaxAnswer));
}

}  // namespace carma::cli
