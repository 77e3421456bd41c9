#include "cli/slurm/site.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace carma::cli {
namespace {

constexpr std::int64_t kGib = 1024;
constexpr std::string_view kPlugin = "spank_carma.so";
constexpr std::string_view kMark = "carma for Slurm ";

std::string ValueOf(const std::map<std::string, std::string>& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "" : found->second;
}

bool HasWord(const std::string& list, std::string_view word) {
  const std::vector<std::string_view> words = base::Split(list, ',');
  return std::ranges::any_of(words,
                             [&](std::string_view each) { return base::Trim(each) == word; });
}

std::int64_t GibOf(const api::GpuView& gpu) {
  return (gpu.total_mib - gpu.reserved_mib) / kGib;
}

Finding CheckCarmad(const SlurmFacts& facts) {
  if (facts.gpus)
    return {"carmad", Level::kOk,
            fmt::format("responds at {}; {} GiB on {} available to tasks", facts.socket,
                        UsableGib(*facts.gpus), base::Counted(std::ssize(*facts.gpus), "GPU"))};
  return {"carmad", Level::kBad, facts.gpus.error().message,
          "systemctl start carmad, and see carma doctor"};
}

Finding CheckPlugin(const SlurmFacts& facts) {
  const char* topic = "plug-in";
  if (!facts.plugin)
    return {topic, Level::kBad, "no line in plugstack.conf names spank_carma.so",
            "add the line that 'carma slurm config' prints, and restart slurmd"};
  const PluginLine& line = *facts.plugin;
  if (facts.plugin_release.empty())
    return {topic, Level::kBad, fmt::format("{}: no CARMA plug-in at this path", line.path),
            "install carma-slurm, or name its file in plugstack.conf"};
  if (!facts.release.empty() && facts.plugin_release != facts.release)
    return {topic, Level::kBad,
            fmt::format("built for Slurm {}, but this is Slurm {}", facts.plugin_release,
                        facts.release),
            "build CARMA with the libslurm-dev of this release"};
  if (!line.required)
    return {topic, Level::kWarn,
            "optional in plugstack.conf: if it cannot be loaded, jobs run without a lease",
            "use 'required' on nodes; 'optional' is for hosts that only submit jobs"};
  if (!line.socket.empty() && line.socket != facts.socket)
    return {topic, Level::kWarn,
            fmt::format("connects to {}, but this carmad listens on {}", line.socket, facts.socket),
            "name the same socket in plugstack.conf and carma.toml"};
  return {topic, Level::kOk, fmt::format("{}, for Slurm {}", line.path, facts.plugin_release)};
}

Finding CheckCount(const SlurmFacts& facts) {
  const std::string gres = ValueOf(facts.node_config, "Gres");
  const std::optional<std::int64_t> count = CarmaCount(gres);
  if (!count)
    return {"gres", Level::kBad,
            fmt::format("Slurm does not track GPU memory on node {} (Gres={})", facts.node, gres),
            "add carma to GresTypes and to the node's Gres (carma slurm config)"};
  const std::int64_t usable = facts.gpus ? UsableGib(*facts.gpus) : *count;
  if (*count == usable) return {"gres", Level::kOk, fmt::format("carma:{}", *count)};
  const Level level = *count > usable ? Level::kBad : Level::kWarn;
  return {"gres", level, fmt::format("Slurm counts {} GiB, but the GPUs have {}", *count, usable),
          fmt::format("Gres=carma:{} for node {}", usable, facts.node)};
}

Finding CheckDevices(const SlurmFacts& facts) {
  const bool gpus = ValueOf(facts.node_config, "Gres").find("gpu") != std::string::npos;
  if (!gpus) return {"devices", Level::kOk, "Slurm allocates no GPUs on this node"};
  return {"devices", Level::kWarn,
          "Slurm also allocates GPUs on this node; CARMA treats processes on them as foreign",
          "remove gpu from the node's Gres, or let job_submit.lua keep rejecting --gres=gpu"};
}

// True if the file might call carma, or if its text is empty because it could not be read.
bool MayCallCarma(const std::string& text) {
  return base::Trim(text).empty() || text.find("carma") != std::string::npos;
}

bool IsSet(const std::string& value) {
  return !value.empty() && value != "(null)";
}

Finding CheckProlog(const SlurmFacts& facts) {
  const std::string prolog = ValueOf(facts.config, "Prolog");
  if (!IsSet(prolog))
    return {"prolog", Level::kWarn,
            "not set: while carmad is down, this node accepts job after job, and all of them fail",
            "set Prolog as printed by 'carma slurm config'"};
  if (!MayCallCarma(facts.prolog))
    return {"prolog", Level::kWarn, prolog + " does not mention carma",
            "call 'carma slurm guard' from it"};
  const std::string parameters = ValueOf(facts.config, "SchedulerParameters");
  if (!HasWord(parameters, "nohold_on_prolog_fail"))
    return {"prolog", Level::kWarn, "jobs that start while carmad is down stay held",
            "SchedulerParameters=nohold_on_prolog_fail"};
  return {"prolog", Level::kOk, prolog};
}

Finding CheckEpilog(const SlurmFacts& facts) {
  const std::string epilog = ValueOf(facts.config, "Epilog");
  if (!IsSet(epilog))
    return {"epilog", Level::kWarn, "not set: processes that outlive their job keep its GPUs",
            "set Epilog as printed by 'carma slurm config'"};
  if (!MayCallCarma(facts.epilog))
    return {"epilog", Level::kWarn, epilog + " does not mention carma",
            "call 'carma slurm epilog' from it"};
  return {"epilog", Level::kOk, epilog};
}

Finding CheckSubmission(const SlurmFacts& facts) {
  const std::string plugins = ValueOf(facts.config, "JobSubmitPlugins");
  if (HasWord(plugins, "lua") && !MayCallCarma(facts.submission))
    return {"submission", Level::kWarn,
            "job_submit.lua does not mention carma: --carma-mem is not counted",
            "add the lines that 'carma slurm config' prints"};
  if (HasWord(plugins, "lua")) return {"submission", Level::kOk, "JobSubmitPlugins=" + plugins};
  return {"submission", Level::kWarn, "Slurm does not count --carma-mem without job_submit.lua",
          "set JobSubmitPlugins=lua ('carma slurm config' names the file), or use --gres=carma:N "
          "per job"};
}

// Warns if Slurm fills up one node before it uses the next, which is its default. Jobs that wait on
// a full node are moved only if slurm.enabled is set, and then only after a long wait.
Finding CheckSpreading(const SlurmFacts& facts) {
  const char* topic = "spreading";
  if (HasWord(ValueOf(facts.config, "SelectTypeParameters"), "CR_LLN"))
    return {topic, Level::kOk, "CR_LLN: jobs go to the least loaded node"};
  const std::string partitions = ValueOf(facts.node_config, "Partitions");
  std::vector<std::string> filling;
  for (const std::string_view each : base::Split(partitions, ',')) {
    const auto found = facts.partitions.find(std::string(base::Trim(each)));
    if (found != facts.partitions.end() && ValueOf(found->second, "LLN") == "NO")
      filling.push_back(found->first);
  }
  if (filling.empty()) return {topic, Level::kOk, "jobs go to the least loaded node"};
  return {topic, Level::kWarn,
          fmt::format("partition {}: jobs wait on a full node while others are idle",
                      base::Join(filling, ", ")),
          fmt::format("PartitionName={} ... LLN=YES", filling.front())};
}

Finding CheckRetries(const SlurmFacts& facts) {
  if (facts.restart)
    return {"retries", Level::kWarn, "slurm.enabled has changed since carmad started",
            "systemctl restart carmad"};
  if (!facts.requeues)
    return {"retries", Level::kWarn,
            "slurm.enabled is false: jobs that run out of GPU memory are not requeued",
            "slurm.enabled = true in carma.toml, and restart carmad"};
  constexpr std::string_view kName = "cred_expire=";
  constexpr std::int64_t kUsualS = 120, kLongS = 60;
  const std::string info = ValueOf(facts.config, "AuthInfo");
  const std::size_t at = info.find(kName);
  const std::string_view rest = at == std::string::npos
                                    ? std::string_view()
                                    : std::string_view(info).substr(at + kName.size());
  const std::int64_t expire =
      base::ParseInt(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(kUsualS);
  if (expire <= kLongS)
    return {"retries", Level::kOk, fmt::format("a job is restarted after {} s", expire)};
  return {"retries", Level::kWarn, fmt::format("a job is restarted after at least {} s", expire),
          "AuthInfo=cred_expire=30"};
}

}  // namespace

std::int64_t UsableGib(const std::vector<api::GpuView>& gpus) {
  std::int64_t sum = 0;
  for (const api::GpuView& gpu : gpus) sum += GibOf(gpu);
  return sum;
}

std::int64_t SmallestGib(const std::vector<api::GpuView>& gpus) {
  const auto least = std::ranges::min_element(gpus, {}, GibOf);
  return least == gpus.end() ? 0 : GibOf(*least);
}

std::int64_t LargestGib(const std::vector<api::GpuView>& gpus) {
  const auto most = std::ranges::max_element(gpus, {}, GibOf);
  return most == gpus.end() ? 0 : GibOf(*most);
}

std::string ConfigText(const SiteLines& site, const std::vector<api::GpuView>& gpus) {
  return fmt::format(
      "# slurm.conf, on all hosts: add to the existing lines and lists\n"
      "# in the line of node {0}: Gres=carma:{1}\n"
      "# in the lines of its partitions: LLN=YES, or jobs wait on a full node while others idle\n"
      "GresTypes=carma\n"
      "SchedulerParameters=nohold_on_prolog_fail\n"
      "Prolog={2}/prolog\n"
      "Epilog={2}/epilog\n"
      "JobSubmitPlugins=lua\n"
      "AuthInfo=cred_expire=30\n"
      "AccountingStorageTRES=gres/carma\n"
      "\n"
      "# gres.conf, on the nodes\n"
      "NodeName={0} Name=carma Count={1}\n"
      "\n"
      "# plugstack.conf: on the nodes; \"optional\" on hosts that only submit\n"
      "required {2}/spank_carma.so socket={3}\n"
      "\n"
      "# job_submit.lua, next to slurm.conf on the controller\n"
      "carma_gib_per_gpu = {4}\n"
      "carma_largest_gpu_gib = {5}  -- across all nodes: larger requests are refused\n"
      "dofile(\"{2}/job_submit.lua\")\n",
      site.node, UsableGib(gpus), site.folder, site.socket, SmallestGib(gpus), LargestGib(gpus));
}

std::vector<Finding> CheckSlurm(const SlurmFacts& facts) {
  std::vector<Finding> findings{CheckCarmad(facts), CheckPlugin(facts)};
  if (facts.config.empty()) {
    findings.push_back({"slurm", Level::kBad, "scontrol does not respond: is slurmctld running?",
                        "run this command on a host where 'scontrol show config' works"});
    return findings;
  }
  for (const auto& check : {CheckCount, CheckSpreading, CheckDevices, CheckProlog, CheckEpilog,
                            CheckSubmission, CheckRetries})
    findings.push_back(check(facts));
  return findings;
}

std::map<std::string, std::string> ReadLines(std::string_view text) {
  std::map<std::string, std::string> facts;
  for (const std::string_view line : base::Split(text, '\n')) {
    const std::size_t sign = line.find('=');
    if (sign == std::string_view::npos) continue;
    facts[std::string(base::Trim(line.substr(0, sign)))] = base::Trim(line.substr(sign + 1));
  }
  return facts;
}

std::map<std::string, std::string> ReadWords(std::string_view text) {
  std::map<std::string, std::string> facts;
  for (const std::string_view word : base::SplitWords(text)) {
    const std::size_t sign = word.find('=');
    if (sign != std::string_view::npos)
      facts.emplace(std::string(word.substr(0, sign)), std::string(word.substr(sign + 1)));
  }
  return facts;
}

std::map<std::string, std::map<std::string, std::string>> ReadPartitions(std::string_view text) {
  std::map<std::string, std::map<std::string, std::string>> partitions;
  for (const std::string_view line : base::Split(text, '\n')) {
    std::map<std::string, std::string> words = ReadWords(line);
    const std::string name = ValueOf(words, "PartitionName");
    if (!name.empty()) partitions.emplace(name, std::move(words));
  }
  return partitions;
}

std::optional<PluginLine> FindPlugin(std::string_view plugstack) {
  constexpr std::string_view kSocket = "socket=";
  for (const std::string_view line : base::Split(plugstack, '\n')) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (words.size() < 2 || !words[1].ends_with(kPlugin)) continue;
    if (words[0] != "required" && words[0] != "optional") continue;
    PluginLine found{words[0] == "required", std::string(words[1]), ""};
    for (const std::string_view word : words) {
      if (word.starts_with(kSocket)) found.socket = word.substr(kSocket.size());
    }
    return found;
  }
  return std::nullopt;
}

Result<std::string> OnlyNode(std::string_view aliases, const std::string& host) {
  std::vector<std::string> names;
  for (const std::string_view line : base::Split(aliases, '\n')) {
    for (const std::string_view name : base::SplitWords(line)) names.emplace_back(name);
  }
  if (names.size() > 1)
    return Invalid("Slurm has several nodes on this host: name one with --node ({})",
                   base::Join(names, ", "));
  return names.empty() ? host : names.front();
}

std::optional<std::int64_t> CarmaCount(std::string_view gres) {
  constexpr std::string_view kName = "carma:";
  for (const std::string_view each : base::Split(gres, ',')) {
    if (!each.starts_with(kName)) continue;
    const std::string_view count = each.substr(kName.size());
    return base::ParseInt(count.substr(0, count.find_first_not_of("0123456789")));
  }
  return std::nullopt;
}

std::string ReleaseOf(std::string_view text) {
  for (const std::string_view word : base::SplitWords(text)) {
    if (!word.empty() && word[0] >= '0' && word[0] <= '9') return std::string(word);
  }
  return "";
}

std::string PluginRelease(std::string_view bytes) {
  const std::size_t at = bytes.find(kMark);
  if (at == std::string_view::npos) return "";
  const std::string_view release = bytes.substr(at + kMark.size(), 32);
  return std::string(release.substr(0, release.find_first_not_of("0123456789.")));
}

}  // namespace carma::cli
