#include "task/describe/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::array kOptions{
    SlurmOption{"account", 'A', true},
    SlurmOption{"acctg-freq", 0, true},
    SlurmOption{"clusters", 'M', true},
    SlurmOption{"container", 0, true},
    SlurmOption{"contiguous", 0, false},
    SlurmOption{"core-spec", 'S', true},
    SlurmOption{"cores-per-socket", 0, true},
    SlurmOption{"cpus-per-gpu", 0, true},
    SlurmOption{"cpus-per-task", 'c', true},
    SlurmOption{"cpu-freq", 0, true},
    SlurmOption{"deadline", 0, true},
    SlurmOption{"distribution", 'm', true},
    SlurmOption{"exclude", 'x', true},
    SlurmOption{"extra-node-info", 'B', true},
    SlurmOption{"get-user-env", 0, false},
    SlurmOption{"gid", 0, true},
    SlurmOption{"gpu-bind", 0, true},
    SlurmOption{"gpu-freq", 0, true},
    SlurmOption{"gpus-per-socket", 0, true},
    SlurmOption{"gpus-per-task", 0, true},
    SlurmOption{"gres-flags", 0, true},
    SlurmOption{"hint", 0, true},
    SlurmOption{"input", 'i', true},
    SlurmOption{"kill-on-invalid-dep", 0, true},
    SlurmOption{"licenses", 'L', true},
    SlurmOption{"mail-type", 0, true},
    SlurmOption{"mail-user", 0, true},
    SlurmOption{"mem", 0, true},
    SlurmOption{"mem-bind", 0, true},
    SlurmOption{"mem-per-cpu", 0, true},
    SlurmOption{"mem-per-gpu", 0, true},
    SlurmOption{"mincpus", 0, true},
    SlurmOption{"nice", 0, false},
    SlurmOption{"no-kill", 'k', false},
    SlurmOption{"nodelist", 'w', true},
    SlurmOption{"nodes", 'N', true},
    SlurmOption{"ntasks", 'n', true},
    SlurmOption{"ntasks-per-core", 0, true},
    SlurmOption{"ntasks-per-gpu", 0, true},
    SlurmOption{"ntasks-per-node", 0, true},
    SlurmOption{"ntasks-per-socket", 0, true},
    SlurmOption{"open-mode", 0, true},
    SlurmOption{"overcommit", 'O', false},
    SlurmOption{"oversubscribe", 's', false},
    SlurmOption{"parsable", 0, false},
    SlurmOption{"partition", 'p', true},
    SlurmOption{"prefer", 0, true},
    SlurmOption{"profile", 0, true},
    SlurmOption{"propagate", 0, false},
    SlurmOption{"qos", 'q', true},
    SlurmOption{"quiet", 'Q', false},
    SlurmOption{"reboot", 0, false},
    SlurmOption{"reservation", 0, true},
    SlurmOption{"signal", 0, true},
    SlurmOption{"sockets-per-node", 0, true},
    SlurmOption{"spread-job", 0, false},
    SlurmOption{"switches", 0, true},
    SlurmOption{"thread-spec", 0, true},
    SlurmOption{"threads-per-core", 0, true},
    SlurmOption{"time-min", 0, true},
    SlurmOption{"tmp", 0, true},
    SlurmOption{"uid", 0, true},
    SlurmOption{"use-min-nodes", 0, false},
    SlurmOption{"verbose", 'v', false},
    SlurmOption{"wait", 'W', false},
    SlurmOption{"wait-all-nodes", 0, true},
    SlurmOption{"wckey", 0, true},
};

// Options that only srun has.
constexpr std::array kOfSrun{
    SlurmOption{"bcast", 0, false},
    SlurmOption{"chdir", 'D', true},
    SlurmOption{"cpu-bind", 0, true},
    SlurmOption{"cpu_bind", 0, true},
    SlurmOption{"epilog", 0, true},
    SlurmOption{"error", 'e', true},
    SlurmOption{"exact", 0, false},
    SlurmOption{"exclusive", 0, false},
    SlurmOption{"export", 0, true},
    SlurmOption{"gpus", 'G', true},
    SlurmOption{"gpus-per-node", 0, true},
    SlurmOption{"gres", 0, true},
    SlurmOption{"het-group", 0, true},
    SlurmOption{"immediate", 'I', false},
    SlurmOption{"job-name", 'J', true},
    SlurmOption{"jobid", 0, true},
    SlurmOption{"kill-on-bad-exit", 'K', false},
    SlurmOption{"label", 'l', false},
    SlurmOption{"mpi", 0, true},
    SlurmOption{"output", 'o', true},
    SlurmOption{"overlap", 0, false},
    SlurmOption{"preserve-env", 'E', false},
    SlurmOption{"prolog", 0, true},
    SlurmOption{"pty", 0, false},
    SlurmOption{"quit-on-interrupt", 'q', false},
    SlurmOption{"relative", 'r', true},
    SlurmOption{"resv-ports", 0, false},
    SlurmOption{"task-epilog", 0, true},
    SlurmOption{"task-prolog", 0, true},
    SlurmOption{"threads", 'T', true},
    SlurmOption{"time", 't', true},
    SlurmOption{"unbuffered", 'u', false},
    SlurmOption{"wait", 'W', true},
};

template <class Options>
const SlurmOption* Find(const Options& options, std::string_view name) {
  const auto found = std::ranges::find_if(options, [&](const SlurmOption& each) {
    return each.name == name || (name.size() == 1 && each.letter != 0 && name[0] == each.letter);
  });
  return found == options.end() ? nullptr : &*found;
}

std::optional<std::int64_t> CountIn(const SlurmWords& words, std::string_view option) {
  const auto found = words.find(option);
  if (found == words.end()) return std::nullopt;
  const std::optional<std::int64_t> count = base::ParseInt(found->second);
  return count && *count > 0 ? count : std::nullopt;
}

// Options whose values become variables unchanged.
constexpr std::array kPassedOn{
    std::pair{"account", "SLURM_JOB_ACCOUNT"},
    std::pair{"cpus-per-gpu", "SLURM_CPUS_PER_GPU"},
    std::pair{"cpus-per-task", "SLURM_CPUS_PER_TASK"},
    std::pair{"gpus", "SLURM_GPUS"},
    std::pair{"gpus-per-node", "SLURM_GPUS_PER_NODE"},
    std::pair{"gpu-bind", "SLURM_GPU_BIND"},
    std::pair{"gpus-per-task", "SLURM_GPUS_PER_TASK"},
    std::pair{"ntasks-per-gpu", "SLURM_NTASKS_PER_GPU"},
    std::pair{"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
    std::pair{"partition", "SLURM_JOB_PARTITION"},
    std::pair{"qos", "SLURM_JOB_QOS"},
};
// Amounts of memory. Slurm's variables have them in MiB.
constexpr std::array kMemory{
    std::pair{"mem", "SLURM_MEM_PER_NODE"},
    std::pair{"mem-per-cpu", "SLURM_MEM_PER_CPU"},
    std::pair{"mem-per-gpu", "SLURM_MEM_PER_GPU"},
};

}  // namespace

const SlurmOption* FindSlurmOption(std::string_view name) {
  return Find(kOptions, name);
}

const SlurmOption* FindSrunOption(std::string_view name) {
  const SlurmOption* own = Find(kOfSrun, name);
  return own != nullptr ? own : FindSlurmOption(name);
}

std::optional<OptionWord> TakeApart(const std::string& word) {
  if (word.starts_with("--") && word.size() > 2) {
    const std::size_t equals = word.find('=');
    OptionWord option{word.substr(2, equals - 2), std::nullopt};
    if (equals != std::string::npos) option.value = word.substr(equals + 1);
    return option;
  }
  if (word.size() < 2 || word[0] != '-' || word[1] == '-') return std::nullopt;
  OptionWord option{word.substr(1, 1), std::nullopt};
  if (word.size() > 2) option.value = word.substr(word[2] == '=' ? 3 : 2);
  return option;
}

std::optional<std::int64_t> ProcessesOf(const SlurmWords& words, int gpus) {
  if (const auto all = CountIn(words, "ntasks")) return all;
  if (const auto on_node = CountIn(words, "ntasks-per-node")) return on_node;
  if (const auto each = CountIn(words, "ntasks-per-gpu"); each && gpus > 0) return *each * gpus;
  return std::nullopt;
}

SlurmVariables VariablesOf(const SlurmWords& words, int gpus) {
  SlurmVariables variables;
  if (const std::optional<std::int64_t> processes = ProcessesOf(words, gpus)) {
    for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASKS_PER_NODE"})
      variables.emplace(name, std::to_string(*processes));
  }
  for (const auto& [option, name] : kPassedOn) {
    const auto found = words.find(option);
    if (found != words.end() && !found->second.empty()) variables.emplace(name, found->second);
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
  for (const std::string_view all : {"gpus", "gres", "gpus-per-node"}) {
    if (words.contains(all)) return std::nullopt;
  }
  const std::int64_t processes = ProcessesOf(words, 0).value_or(1);
  std::optional<std::int64_t> gpus;
  if (const auto each = CountIn(words, "gpus-per-task"); each && *each <= core::kMaxGpus) {
    gpus = *each * std::min<std::int64_t>(processes, core::kMaxGpus + 1);
  } else if (const auto on_each = CountIn(words, "ntasks-per-gpu")) {
    gpus = (processes - 1) / *on_each + 1;
  }
  if (!gpus || *gpus > core::kMaxGpus) return std::nullopt;
  return static_cast<int>(*gpus);
}

std::vector<std::string> FillHost(const SlurmWords& words, core::TaskRequest& task) {
  std::vector<std::string> unread;
  const auto read = [&](std::string_view option, auto parse,
                        std::int64_t most) -> std::optional<std::int64_t> {
    const auto found = words.find(option);
    if (found == words.end()) return std::nullopt;
    const std::optional<std::int64_t> number = parse(found->second);
    if (number && *number >= 0 && *number <= most) return number;
    unread.push_back(
        fmt::format("#SBATCH --{}: '{}' is ignored", option, base::Printable(found->second, 40)));
    return std::nullopt;
  };
  const auto count = [&](std::string_view option) {
    return read(
               option, [](const std::string& text) { return base::ParseInt(text); }, core::kMaxCpus)
        .value_or(0);
  };
  const auto memory = [&](std::string_view option) {
    return read(
               option,
               [](const std::string& text) -> std::optional<std::int64_t> {
                 const Result<std::int64_t> mib = base::ParseMemoryMib(text);
                 return mib ? std::optional(*mib) : std::nullopt;
               },
               core::kMaxHostMemoryMib)
        .value_or(0);
  };
  const std::int64_t copies = std::max<std::int64_t>(
      {1, count("ntasks"), count("ntasks-per-node"), ProcessesOf(words, task.gpus).value_or(1)});
  std::int64_t cpus = count("cpus-per-task") * copies;
  // A single process without other options does not state a number of cores.
  if (cpus == 0 && copies > 1) cpus = copies;
  if (cpus == 0) cpus = count("cpus-per-gpu") * task.gpus;
  if (cpus > 0 && !task.cpus)
    task.cpus = static_cast<int>(std::min<std::int64_t>(cpus, core::kMaxCpus));
  std::int64_t mib = memory("mem");
  if (mib == 0) mib = memory("mem-per-cpu") * task.cpus.value_or(1);
  if (mib == 0) mib = memory("mem-per-gpu") * task.gpus;
  if (mib > 0 && !task.host_memory_mib)
    task.host_memory_mib = std::min(mib, core::kMaxHostMemoryMib);
  return unread;
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
