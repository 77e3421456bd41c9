#include "gpu/nvml_processes.h"

#include <algorithm>

#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/try.h"
#include "gpu/memory_limits.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

constexpr std::uint32_t kMaxProcesses = 65'536;
constexpr std::uint32_t kRoom = 8;  // for processes that start between the two calls
constexpr std::uint32_t kMaxPid = 1 << 30;

// Adds one entry from the driver's list, summing the memory of entries with the same pid.
void AddUse(std::vector<ProcessUse>& uses, const ProcessUse& line) {
  for (ProcessUse& use : uses) {
    if (use.pid != line.pid) continue;
    use.used_mib = use.used_mib && line.used_mib ? std::optional(*use.used_mib + *line.used_mib)
                                                 : std::nullopt;
    return;
  }
  uses.push_back(line);
}

// Merges a process from another list. Keeps the larger amount of memory, because a process that
// uses both compute and graphics appears in both lists with all its memory.
void MergeUse(std::vector<ProcessUse>& all, const ProcessUse& use) {
  for (ProcessUse& known : all) {
    if (known.pid != use.pid) continue;
    known.used_mib = std::max(known.used_mib, use.used_mib);
    known.mps_client |= use.mps_client;
    known.graphics &= use.graphics;
    return;
  }
  all.push_back(use);
}

// The MPS server uses some memory itself and is listed like a client. The kernel truncates process
// names to 15 bytes.
bool IsMpsServer(pid_t pid, const std::vector<ProcessUse>& known) {
  for (const ProcessUse& use : known) {
    if (use.pid == pid) return use.mps_server;
  }
  const std::optional<base::ProcessStat> stat = base::ReadProcessStat(pid);
  return stat && stat->command == "nvidia-cuda-mps";
}

std::unexpected<ReadError> Absurd(const NvmlDevice& device) {
  return FailRead(ErrorCode::kCorrupt, "the driver's list of processes is implausible",
                  device.info.uuid);
}

// Mount point of the cgroup v2 tree, which is not /sys/fs/cgroup if v1 trees are mounted too.
std::string CgroupRoot() {
  const std::string mounts = base::ReadFile("/proc/self/mounts", 1 << 20).value_or("");
  for (const std::string_view line : base::Split(mounts, '\n')) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (words.size() > 2 && words[2] == "cgroup2") return std::string(words[1]);
  }
  return "/sys/fs/cgroup";
}

// True if a list entry belongs to this instance. In the instance's own list, an entry need not name
// the instance.
bool IsOf(const NvmlDevice& device, const nvml::ProcessInfo& line, bool whole_list) {
  if (!device.info.mig) return true;
  const bool untold = line.gpu_instance == nvml::kNoValue32;
  if (untold) return !whole_list;
  return line.gpu_instance == device.GpuInstance() &&
         (line.compute_instance == nvml::kNoValue32 ||
          line.compute_instance == device.ComputeInstance());
}

}  // namespace

// Lists processes. More processes may start between the count and the list, so the buffer has some
// spare room, and a list that is still too long is requested again.
nvml::Return NvmlProcesses::Ask(nvml::GetProcessesFn* function, nvml::Device handle) {
  count_ = 0;
  nvml::Return code = function(handle, &count_, nullptr);
  while (code == nvml::kInsufficientSize && count_ <= kMaxProcesses) {
    const std::size_t room = std::max<std::size_t>(count_ + kRoom, lines_.size());
    lines_.resize(std::min<std::size_t>(room, kMaxProcesses + kRoom));
    const std::uint32_t asked = count_;
    count_ = static_cast<std::uint32_t>(lines_.size());
    code = function(handle, &count_, lines_.data());
    if (code == nvml::kInsufficientSize && count_ <= asked) count_ = asked + 64;
  }
  return code;
}

ReadResult<bool> NvmlProcesses::Add(NvmlCalls& calls, const NvmlDevice& device,
                                    nvml::GetProcessesFn* function, const char* what,
                                    const ProcessUse& kind) {
  if (!function) return false;
  nvml::Return code = Ask(function, device.handle);
  // Some drivers cannot list an instance's processes if they are given the instance's handle.
  const bool whole_list = device.info.mig && (MeansAbsent(code) || code == nvml::kInvalidArgument);
  if (whole_list) code = Ask(function, device.board);
  if (code == nvml::kInsufficientSize) return Absurd(device);
  const bool given = CARMA_TRY(calls.Given(device.info.uuid, code, what, Weight::kDecides));
  if (!given) return false;
  if (count_ > lines_.size()) return Absurd(device);
  std::vector<ProcessUse> uses;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const nvml::ProcessInfo& line = lines_[i];
    if (!IsOf(device, line, whole_list)) continue;
    if (line.pid > kMaxPid) return Absurd(device);
    ProcessUse use = kind;
    use.pid = static_cast<pid_t>(line.pid);
    if (line.used_gpu_memory != nvml::kNoValue64)
      use.used_mib = StartedMib(Bytes(line.used_gpu_memory)).value();
    AddUse(uses, use);
  }
  for (const ProcessUse& use : uses) MergeUse(now_, use);
  return true;
}

ReadResult<Unit> NvmlProcesses::List(NvmlCalls& calls, const NvmlDevice& device, Reading& reading) {
  const NvmlApi& api = calls.api;
  now_.clear();
  reading.processes_hidden = !CARMA_TRY(Add(calls, device, api.compute, "compute processes", {}));
  CARMA_TRY(Add(calls, device, api.graphics, "graphics processes", {.graphics = true}));
  CARMA_TRY(Add(calls, device, api.mps, "MPS processes", {.mps_client = true}));
  for (ProcessUse& use : now_) {
    use.mps_server = IsMpsServer(use.pid, before_);
    if (use.mps_server) use.mps_client = false;
  }
  before_ = now_;
  reading.processes = now_;
  return Unit{};
}

ReadResult<Unit> NvmlProcesses::AddKernelTime(NvmlCalls& calls, const NvmlDevice& device,
                                              std::optional<double> busy,
                                              std::vector<ProcessUse>& processes) {
  nvml::GetProcessUtilizationFn* function = calls.api.process_utilization;
  if (!function || device.info.mig || processes.empty()) return Unit{};
  std::uint32_t count = std::max(static_cast<std::uint32_t>(samples_.size()),
                                 static_cast<std::uint32_t>(processes.size()) + kRoom);
  samples_.resize(count);
  nvml::Return code = function(device.handle, samples_.data(), &count, seen_us_);
  if (code == nvml::kInsufficientSize && count > samples_.size() && count <= kMaxProcesses) {
    samples_.resize(count);
    code = function(device.handle, samples_.data(), &count, seen_us_);
  }
  if (code == nvml::kNotFound) count = 0;  // no process has computed since then
  const bool given =
      CARMA_TRY(calls.Given(device.info.uuid, code == nvml::kNotFound ? nvml::kSuccess : code,
                            "per-process utilization", Weight::kTells));
  if (!given || count > samples_.size() || (count == 0 && busy.value_or(0) > 0)) return Unit{};
  std::map<pid_t, const nvml::ProcessUtilization*> newest;
  for (std::uint32_t i = 0; i < count; ++i) {
    const nvml::ProcessUtilization*& known = newest[static_cast<pid_t>(samples_[i].pid)];
    if (!known || known->timestamp_us <= samples_[i].timestamp_us) known = &samples_[i];
    seen_us_ = std::max(seen_us_, samples_[i].timestamp_us);
  }
  for (ProcessUse& use : processes) {
    if (use.mps_server || use.mps_client) continue;
    const auto found = newest.find(use.pid);
    const std::optional<Fraction> share =
        ToFraction(Percent(found == newest.end() ? 0.0 : found->second->sm));
    if (share) use.kernel_time = share->value();
  }
  return Unit{};
}

void NvmlProcesses::AddGroups(const NvmlApi& api, const NvmlDevice& device,
                              std::vector<ProcessUse>& processes) {
  if (api.memory_limits == nullptr || device.info.mig) return;
  static const std::string root = CgroupRoot();
  std::map<std::string, std::optional<GroupMemory>> asked;  // many processes may share a group
  std::map<pid_t, std::string> groups;
  for (ProcessUse& use : processes) {
    if (use.mps_server) continue;
    const auto known = groups_.find(use.pid);
    std::string group = known != groups_.end() ? known->second : base::CgroupOf(use.pid);
    groups.emplace(use.pid, group);
    for (; group.size() > 1; group.erase(group.rfind('/'))) {
      const auto [at, is_new] = asked.try_emplace(group);
      if (is_new) at->second = ReadGroupMemory(api, device.handle, root + group);
      if (!at->second || !at->second->hard_mib) continue;
      use.group = group;
      use.group_mib = at->second->used_mib;
      break;
    }
  }
  groups_ = std::move(groups);
}

}  // namespace carma::gpu
