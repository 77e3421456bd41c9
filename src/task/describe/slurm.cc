#include "task/describe/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace carma::task {
namespace {

// For each option: long name, letter if it has one, '=' if it takes a value.
constexpr std::string_view kOptions =
    "account,A=;acctg-freq=;clusters,M=;container=;contiguous;core-spec,S=;cores-per-socket=;"
    "cpus-per-gpu=;cpus-per-task,c=;cpu-freq=;deadline=;distribution,m=;exclude,x=;"
    "extra-node-info,B=;get-user-env;gid=;gpu-bind=;gpu-freq=;gpus-per-socket=;gpus-per-task=;"
    "gres-flags=;hint=;input,i=;kill-on-invalid-dep=;licenses,L=;mail-type=;mail-user=;mem=;"
    "mem-bind=;mem-per-cpu=;mem-per-gpu=;mincpus=;nice;no-kill,k;nodelist,w=;nodes,N=;"
    "ntasks,n=;ntasks-per-core=;ntasks-per-gpu=;ntasks-per-node=;ntasks-per-socket=;open-mode=;"
    "overcommit,O;oversubscribe,s;parsable;partition,p=;prefer=;profile=;propagate;qos,q=;"
    "quiet,Q;reboot;reservation=;signal=;sockets-per-node=;spread-job;switches=;thread-spec=;"
    "threads-per-core=;time-min=;tmp=;uid=;use-min-nodes;verbose,v;wait,W;wait-all-nodes=;"
    "wckey=";

// Options that only srun has.
constexpr std::string_view kOfSrun =
    "bcast;chdir,D=;cpu-bind=;cpu_bind=;epilog=;error,e=;exact;exclusive;export=;gpus,G=;"
    "gpus-per-node=;gres=;het-group=;immediate,I;job-name,J=;jobid=;kill-on-bad-exit,K;label,l;"
    "mpi=;output,o=;overlap;preserve-env,E;prolog=;pty;quit-on-interrupt,q;relative,r=;"
    "resv-ports;task-epilog=;task-prolog=;threads,T=;time,t=;unbuffered,u;wait,W=";

std::vector<SlurmOption> ReadOptions(std::string_view text) {
  std::vector<SlurmOption> options;
  for (std::string_view word : base::Split(text, ';')) {
    const bool takes_value = word.ends_with('=');
    if (takes_value) word.remove_suffix(1);
    const std::size_t comma = word.find(',');
    options.push_back(
        {word.substr(0, comma), comma == word.npos ? '\0' : word[comma + 1], takes_value});
  }
  return options;
}

const SlurmOption* Find(const std::vector<SlurmOption>& options, std::string_view name) {
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

// Options whose values are copied unchanged to variables.
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
// Memory options. The values of Slurm's variables are in MiB.
constexpr std::array kMemory{
    std::pair{"mem", "SLURM_MEM_PER_NODE"},
    std::pair{"mem-per-cpu", "SLURM_MEM_PER_CPU"},
    std::pair{"mem-per-gpu", "SLURM_MEM_PER_GPU"},
};

}  // namespace

const SlurmOption* FindSlurmOption(std::string_view name) {
  static const std::vector<SlurmOption> options = ReadOptions(kOptions);
  return Find(options, name);
}

const SlurmOption* FindSrunOption(std::string_view name) {
  static const std::vector<SlurmOption> options = ReadOptions(kOfSrun);
  const SlurmOption* own = Find(options, name);
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
  // Returns 0 if the option is absent or its value cannot be parsed.
  const auto read = [&](std::string_view option, auto parse, std::int64_t most) -> std::int64_t {
    const auto found = words.find(option);
    if (found == words.end()) return 0;
    if (const auto number = parse(found->second); number && *number >= 0 && *number <= most)
      return *number;
    unread.push_back(
        fmt::format("#SBATCH --{}: '{}' is ignored", option, base::Printable(found->second, 40)));
    return 0;
  };
  const auto count = [&](std::string_view option) {
    return read(option, base::ParseInt, core::kMaxCpus);
  };
  const auto memory = [&](std::string_view option) {
    return read(option, base::ParseMemoryMib, core::kMaxHostMemoryMib);
  };
  const std::int64_t copies = std::max<std::int64_t>(
      {1, count("ntasks"), count("ntasks-per-node"), ProcessesOf(words, task.gpus).value_or(1)});
  std::int64_t cpus = count("cpus-per-task") * copies;
  // Without --cpus-per-task, each of several processes counts as one core, and a single process
  // gets the cores of --cpus-per-gpu, if any.
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
  if (name == "SLURM_CONF") return false;
  for (const std::string_view prefix : {"SLURM_", "SLURMD_", "SBATCH_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace carma::task
