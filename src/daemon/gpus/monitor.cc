#include "daemon/gpus/monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/troubles.h"
#include "base/log.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

constexpr base::Duration kFullnessSpan{2'000};
constexpr int kLostReadings = 3;
constexpr base::Duration kXidSpan{10'000};
constexpr std::size_t kMostPoints = 4096;  // maximum number of readings kept for one GPU

}  // namespace

Monitor::Monitor(std::vector<gpu::DeviceInfo> devices, MonitorOptions options)
    : options_(std::move(options)), devices_(std::move(devices)) {
  for (const gpu::DeviceInfo& device : devices_) states_.emplace_back(device.uuid, options_);
}

const Monitor::Device& Monitor::Of(core::GpuIndex gpu) const {
  static const Device kNone("", MonitorOptions{});
  return core::Number(gpu) < states_.size() ? states_[core::Number(gpu)] : kNone;
}

core::GpuSample Monitor::Sample(const Device& device, const gpu::Reading& reading) const {
  core::GpuSample sample;
  sample.taken = reading.taken;
  sample.window_from = device.window.from();
  sample.used_mib = reading.used_mib;
  sample.sm_active = device.window.SmActive();
  sample.utilization = device.window.Utilization();
  sample.attributed = device.use.memory_told;
  sample.foreign_processes = device.use.ForeignProcesses();
  for (const auto& [id, task] : device.use.tasks) sample.tasks_mib.emplace_back(id, task.used_mib);
  return sample;
}

bool Monitor::EnergyIsShownByAnother(std::size_t i) const {
  if (!devices_[i].mig) return false;
  for (std::size_t other = 0; other < states_.size(); ++other) {
    const bool sibling =
        devices_[other].mig && devices_[other].mig->parent_uuid == devices_[i].mig->parent_uuid;
    if (sibling && states_[other].last && states_[other].last->energy_j) return true;
  }
  return false;
}

void Monitor::KeepHistory(Device& device, const gpu::Reading& reading) const {
  device.history.push_back({reading.taken, reading.sm_active, reading.dram_active, reading.power_w,
                            reading.used_mib, static_cast<int>(device.use.tasks.size())});
  while (device.history.size() > kMostPoints ||
         device.history.front().taken < reading.taken - options_.history) {
    device.history.pop_front();
  }
}

void Monitor::Judge(std::size_t i, bool healthy, bool lost, std::string text,
                    std::vector<core::Event>& events) {
  Device& device = states_[i];
  if (device.healthy == healthy && device.trouble == text && !lost) return;
  device.healthy = healthy;
  device.trouble = text;
  events.push_back(core::GpuHealthChanged{static_cast<core::GpuIndex>(i), healthy, lost, text});
}

std::string Monitor::TextOf(std::size_t i, const gpu::ReadError& error) const {
  const bool named = error.gpu == devices_[i].uuid || error.gpu == std::to_string(i);
  return named ? error.message : error.Sentence();
}

// A GPU that could not be described and was not known before stays unusable until carmad restarts,
// because the core lacks its name and memory.
std::optional<gpu::ReadError> Monitor::Objection(
    std::size_t i, const gpu::ReadResult<gpu::Reading>& answer) const {
  const gpu::DeviceTrouble& trouble = devices_[i].trouble;
  if (!answer) {
    if (trouble.empty()) return answer.error();
    return gpu::ReadError(answer.error().code, trouble.text, trouble.gpu);
  }
  if (trouble.empty() || devices_[i].total_mib > 0) return std::nullopt;
  return gpu::ReadError(
      ErrorCode::kUnavailable,
      fmt::format("{}; the GPU responds now, so restart carmad to use it", trouble.text),
      trouble.gpu);
}

void Monitor::TakeError(std::size_t i, const gpu::ReadError& error,
                        std::vector<core::Event>& events) {
  Device& device = states_[i];
  const bool gone = error.code == ErrorCode::kNotFound;
  device.lost_in_a_row = gone ? device.lost_in_a_row + 1 : 0;
  if (device.lost_in_a_row >= kLostReadings) device.away = true;
  device.Interrupt();
  Judge(i, false, device.lost_in_a_row == kLostReadings, TextOf(i, error), events);
}

void Monitor::Device::Interrupt() {
  // Values from before the gap are out of date.
  fresh = false;
  window.Clear();
  shares.Clear();
  unattributed_since.reset();
}

void Monitor::TakeReading(std::size_t i, const gpu::Reading& reading, base::Time now, GpuUse use) {
  Device& device = states_[i];
  device.lost_in_a_row = 0;
  device.fresh = true;
  device.window.Add(reading);
  device.use = std::move(use);
  device.shares.Take(reading, device.use, options_.ewma);
  device.usage.Add(reading, static_cast<int>(device.use.tasks.size()));
  KeepHistory(device, reading);
  WatchUnattributed(i, reading);
  device.recent_used.emplace_back(reading.taken, reading.used_mib);
  while (device.recent_used.size() > 1 && device.recent_used.front().first < now - kFullnessSpan)
    device.recent_used.pop_front();
  for (const int xid : reading.xids) {
    device.recent_xids.emplace_back(reading.taken, xid);
    ++device.xid_counts[xid];
    base::LogWarn("xid", {{"gpu", i}, {"xid", xid}, {"what", gpu::DescribeXid(xid).text}});
  }
  while (!device.recent_xids.empty() && device.recent_xids.front().first < now - kXidSpan)
    device.recent_xids.pop_front();
  device.last = reading;
}

std::vector<int> Monitor::XidsFor(std::size_t i, const gpu::Round& round) const {
  std::vector<int> xids = (*round[i])->xids;
  if (!devices_[i].mig) return xids;
  for (std::size_t other = 0; other < round.size(); ++other) {
    const bool sibling = other != i && round[other] && *round[other] && devices_[other].mig &&
                         devices_[other].mig->parent_uuid == devices_[i].mig->parent_uuid;
    if (!sibling) continue;
    for (const int xid : (*round[other])->xids) {
      if (gpu::DescribeXid(xid).meaning == gpu::XidClass::kDevice) xids.push_back(xid);
    }
  }
  return xids;
}

void Monitor::TakeHealth(std::size_t i, const gpu::Reading& reading,
                         std::vector<core::Event>& events) {
  Device& device = states_[i];
  // An energy counter starts from zero when the driver is loaded or the GPU is reset.
  const bool anew = device.last && device.last->energy_j && reading.energy_j &&
                    *reading.energy_j < *device.last->energy_j;
  device.rules.Take(reading);
  // When a GPU comes back, its earlier Xids are forgotten only after its first reading, because the
  // Xids in that reading may be old as well.
  if (std::exchange(device.away, false) || anew) device.rules.Cleared();
  TakeVerdict(i, events);
}

void Monitor::TakeVerdict(std::size_t i, std::vector<core::Event>& events) {
  Device& device = states_[i];
  const std::string& why = device.cuda_trouble.empty() ? device.rules.why() : device.cuda_trouble;
  if (why == device.drain_told) return;
  device.drain_told = why;
  base::LogWarn("gpu_rules", {{"gpu", i}, {"why", why.empty() ? "the problem is gone" : why}});
  if (!options_.health.drain) return;
  const auto gpu = static_cast<core::GpuIndex>(i);
  if (why.empty()) {
    events.push_back(core::ResumeRequested{gpu, true});
  } else {
    events.push_back(core::DrainRequested{gpu, why, true});
  }
}

void Monitor::Follow(const MonitorOptions& options) {
  const bool closes = options.health.drain && !options_.health.drain;
  options_.history = options.history;
  options_.health = options.health;
  options_.unattributed_mib = options.unattributed_mib;
  for (Device& device : states_) {
    device.rules.Follow(options.health);
    // When draining is turned on, forgets the problems that had only been logged, so that the next
    // reading requests a drain.
    if (closes) device.drain_told.clear();
  }
}

void Monitor::WatchUnattributed(std::size_t i, const gpu::Reading& reading) {
  Device& device = states_[i];
  const bool over = device.use.unattributed_mib.value_or(0) > options_.unattributed_mib;
  if (!over) device.unattributed_since.reset();
  if (over && !device.unattributed_since) device.unattributed_since = reading.taken;
  const bool lasting = over && (device.unattributed_alert ||
                                reading.taken - *device.unattributed_since >= options_.window);
  if (lasting == device.unattributed_alert) return;
  device.unattributed_alert = lasting;
  if (lasting) {
    base::LogWarn("gpu_memory_unattributed",
                  {{"gpu", i}, {"mib", device.use.unattributed_mib.value_or(0)}});
  } else {
    base::LogInfo("gpu_memory_attributed", {{"gpu", i}});
  }
}

std::vector<core::Event> Monitor::Take(base::Time now, const gpu::Round& round,
                                       std::vector<GpuUse> uses) {
  std::vector<core::Event> events;
  uses.resize(states_.size());
  for (std::size_t i = 0; i < states_.size() && i < round.size(); ++i) {
    states_[i].left_alone = !round[i];
    if (!round[i]) {
      states_[i].Interrupt();
      continue;
    }
    if (const std::optional<gpu::ReadError> error = Objection(i, *round[i])) {
      if (UpgradeOf(i)) TakeVerdict(i, events);
      TakeError(i, *error, events);
      continue;
    }
    gpu::Reading reading = **round[i];
    reading.xids = XidsFor(i, round);
    // The verdict must be handled before the sample, because the sample may cause a task to start.
    TakeHealth(i, reading, events);
    TakeReading(i, reading, now, std::move(uses[i]));
    events.push_back(core::GpuSampled{static_cast<core::GpuIndex>(i), Sample(states_[i], reading)});
    Judge(i, true, false, "", events);
  }
  return events;
}

std::vector<core::Event> Monitor::DriverSilent(const gpu::ReadError& why) {
  std::vector<core::Event> events;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].Interrupt();
    if (UpgradeOf(i)) TakeVerdict(i, events);
    Judge(i, false, false, TextOf(i, why), events);
  }
  return events;
}

std::vector<store::GpuUsage> Monitor::CloseUsage(base::Time now) {
  std::vector<store::GpuUsage> rows;
  for (std::size_t i = 0; i < states_.size(); ++i)
    states_[i].usage.Close(now, EnergyIsShownByAnother(i), rows);
  return rows;
}

std::vector<HistoryPoint> Monitor::History(core::GpuIndex gpu, base::Time from,
                                           base::Time to) const {
  const std::deque<HistoryPoint>& kept = Of(gpu).history;
  const auto before = [](const HistoryPoint& point, base::Time t) { return point.taken < t; };
  const auto begin = std::lower_bound(kept.begin(), kept.end(), from, before);
  return {begin, std::lower_bound(begin, kept.end(), to, before)};
}

void Monitor::Acknowledge(core::GpuIndex gpu) {
  if (core::Number(gpu) >= states_.size()) return;
  Device& device = states_[core::Number(gpu)];
  device.rules.Acknowledge();
  device.cuda_trouble.clear();
  device.drain_told.clear();
}

void Monitor::NoteCuda(core::GpuIndex gpu, const std::string& trouble) {
  if (core::Number(gpu) < states_.size()) states_[core::Number(gpu)].cuda_trouble = trouble;
}

bool Monitor::UpgradeOf(std::size_t i) const {
  return states_[i].cuda_trouble.starts_with(core::kDriverUpgradeText);
}

std::string Monitor::DriverUpgrade() const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (UpgradeOf(i)) return states_[i].cuda_trouble;
  }
  return "";
}

void Monitor::RestoreDrain(core::GpuIndex gpu, const std::string& why) {
  if (core::Number(gpu) >= states_.size()) return;
  Device& device = states_[core::Number(gpu)];
  if (why.starts_with(kCudaTrouble) || why.starts_with(core::kDriverUpgradeText)) {
    device.cuda_trouble = why;
  } else {
    device.rules.Restore(why);
  }
  device.drain_told = why;
}

std::optional<double> Monitor::RecentFullness(core::GpuIndex gpu, base::Time now) const {
  const std::size_t i = core::Number(gpu);
  if (i >= states_.size()) return std::nullopt;
  const std::int64_t usable_mib = devices_[i].total_mib - devices_[i].reserved_mib;
  std::optional<double> highest;
  for (const auto& [taken, used_mib] : states_[i].recent_used) {
    if (taken < now - kFullnessSpan || usable_mib <= 0) continue;
    highest = std::max(highest.value_or(0),
                       static_cast<double>(used_mib) / static_cast<double>(usable_mib));
  }
  return highest;
}

std::vector<int> Monitor::RecentXids(core::GpuIndex gpu, base::Time now, base::Time since) const {
  std::vector<int> xids;
  for (const auto& [taken, xid] : Of(gpu).recent_xids) {
    if (taken >= now - kXidSpan && taken >= since) xids.push_back(xid);
  }
  return xids;
}

std::string Monitor::LostNow(core::GpuIndex gpu) const {
  return Of(gpu).lost_in_a_row > 0 ? Of(gpu).trouble : "";
}

bool Monitor::Readable(core::GpuIndex gpu) const {
  const Device& device = Of(gpu);
  return device.healthy && (device.last || devices_.at(core::Number(gpu)).trouble.empty());
}

std::int64_t Monitor::ObservedMib(core::GpuIndex gpu, core::TaskId task) const {
  const std::map<core::TaskId, TaskUse>& tasks = Use(gpu).tasks;
  const auto found = tasks.find(task);
  return found == tasks.end() ? 0 : found->second.used_mib;
}

std::vector<std::string> Monitor::Alerts(core::GpuIndex gpu) const {
  std::vector<std::string> alerts;
  const Device& device = Of(gpu);
  if (device.unattributed_alert) {
    alerts.push_back(
        fmt::format("{} of memory does not belong to any process that the driver lists; it was "
                    "left behind by exited processes, or another container uses it",
                    base::FormatMib(device.use.unattributed_mib.value_or(0))));
  }
  if (!options_.health.drain && !device.drain_told.empty())
    alerts.push_back(
        fmt::format("{} (reported only, because health.drain is false)", device.drain_told));
  if (device.last && device.last->condition.compute_mode == gpu::ComputeMode::kProhibited)
    alerts.emplace_back(
        "compute mode is \"prohibited\", so no program can use the GPU "
        "(nvidia-smi -c 0 resets it)");
  return alerts;
}

std::string Monitor::DriverState() const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (InTrouble(states_[i]))
      return api::TroubleOfGpu(static_cast<std::int64_t>(i), states_[i].trouble);
  }
  return devices_.empty() ? "no GPUs" : std::string(api::kDriverIsWell);
}

std::vector<std::string> Monitor::Troubles() const {
  std::vector<std::string> troubles;
  // A driver upgrade affects all GPUs, so it is reported only once.
  if (const std::string upgrade = DriverUpgrade(); !upgrade.empty()) troubles.push_back(upgrade);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (InTrouble(states_[i])) troubles.push_back(api::TroubleOfGpu(index, states_[i].trouble));
    if (options_.health.drain && !states_[i].drain_told.empty() && !UpgradeOf(i))
      troubles.push_back(api::ClosedByRule(index, states_[i].drain_told));
    for (const std::string& alert : Alerts(static_cast<core::GpuIndex>(i)))
      troubles.push_back(api::TroubleOfGpu(index, alert));
  }
  return troubles;
}

}  // namespace carma::daemon
