#include "daemon/monitor.h"

#include <algorithm>

namespace carma::daemon {
namespace {

constexpr base::Duration kFullnessSpan{2'000};
constexpr int kLostReadings = 3;
constexpr base::Duration kXidSpan{10'000};
constexpr std::size_t kMostPoints = 4096;  // of one GPU's history
constexpr double kUnknown = store::GpuUsage::kUnknown;

}  // namespace

Monitor::Monitor(std::vector<gpu::DeviceInfo> devices, MonitorOptions options)
    : options_(std::move(options)), devices_(std::move(devices)) {
  for (std::size_t i = 0; i < devices_.size(); ++i) states_.emplace_back(options_.window);
}

core::GpuSample Monitor::Sample(Device& device, const gpu::Reading& reading,
                                Attribution& attribution) {
  core::GpuSample sample;
  sample.taken = reading.taken;
  sample.window_from = device.window.from();
  sample.used_mib = reading.used_mib;
  sample.sm_active = device.window.SmActive();
  device.tasks_mib.clear();
  for (const gpu::ProcessUse& process : reading.processes) {
    if (process.mps_server) continue;
    if (!process.used_mib) sample.attributed = false;
    const std::optional<core::TaskId> task = attribution.Find(process.pid);
    if (task) {
      device.tasks_mib[*task] += process.used_mib.value_or(0);
    } else {
      ++sample.foreign_processes;
    }
  }
  sample.tasks_mib.assign(device.tasks_mib.begin(), device.tasks_mib.end());
  return sample;
}

void Monitor::AddUsage(Device& device, const gpu::Reading& reading) {
  if (!device.usage) {
    Usage& first = device.usage.emplace();
    first.from = first.last = reading.taken;
    first.first_energy_j = first.last_energy_j = reading.energy_j;
    first.used_peak_mib = reading.used_mib;
    return;
  }
  Usage& usage = *device.usage;
  const auto span_ms = static_cast<double>((reading.taken - usage.last).count());
  if (span_ms <= 0) return;
  if (reading.sm_active) {
    usage.sm_ms += *reading.sm_active * span_ms;
    usage.sm_peak = std::max(usage.sm_peak, *reading.sm_active);
  } else {
    usage.sm_known = false;
  }
  if (reading.dram_active) {
    usage.dram_ms += *reading.dram_active * span_ms;
  } else {
    usage.dram_known = false;
  }
  usage.used_peak_mib = std::max(usage.used_peak_mib, reading.used_mib);
  usage.mib_ms += static_cast<double>(reading.used_mib) * span_ms;
  usage.last = reading.taken;
  if (reading.energy_j) {
    if (!usage.first_energy_j) usage.first_energy_j = reading.energy_j;
    usage.last_energy_j = reading.energy_j;
  }
}

void Monitor::KeepHistory(Device& device, const gpu::Reading& reading) const {
  device.history.push_back({reading.taken, reading.sm_active, reading.dram_active, reading.power_w,
                            reading.used_mib, static_cast<int>(device.tasks_mib.size())});
  while (device.history.size() > kMostPoints ||
         device.history.front().taken < reading.taken - options_.history) {
    device.history.pop_front();
  }
}

void Monitor::Judge(std::size_t i, bool healthy, bool lost, const std::string& text,
                    std::vector<core::Event>& events) {
  Device& device = states_[i];
  if (device.healthy == healthy && device.trouble == text && !lost) return;
  device.healthy = healthy;
  device.trouble = text;
  events.push_back(core::GpuHealthChanged{static_cast<core::GpuIndex>(i), healthy, lost, text});
}

std::vector<core::Event> Monitor::Take(base::Time now,
                                       const std::vector<base::Result<gpu::Reading>>& round,
                                       Attribution& attribution) {
  std::vector<core::Event> events;
  std::vector<pid_t> seen;
  for (std::size_t i = 0; i < states_.size() && i < round.size(); ++i) {
    Device& device = states_[i];
    if (!round[i]) {
      const bool gone = round[i].error().code == base::ErrorCode::kNotFound;
      device.lost_in_a_row = gone ? device.lost_in_a_row + 1 : 0;
      // Values from before a gap say nothing about now.
      device.window.Clear();
      Judge(i, false, device.lost_in_a_row == kLostReadings, round[i].error().message, events);
      continue;
    }
    device.lost_in_a_row = 0;
    device.window.Add(*round[i]);
    AddUsage(device, *round[i]);
    device.last = *round[i];
    device.recent_used.emplace_back(round[i]->taken, round[i]->used_mib);
    while (device.recent_used.size() > 1 &&
           device.recent_used.front().first < now - kFullnessSpan) {
      device.recent_used.pop_front();
    }
    for (const int xid : round[i]->xids) device.recent_xids.emplace_back(round[i]->taken, xid);
    while (!device.recent_xids.empty() && device.recent_xids.front().first < now - kXidSpan)
      device.recent_xids.pop_front();
    for (const gpu::ProcessUse& process : round[i]->processes) seen.push_back(process.pid);
    events.push_back(
        core::GpuSampled{static_cast<core::GpuIndex>(i), Sample(device, *round[i], attribution)});
    KeepHistory(device, *round[i]);
    Judge(i, true, false, "", events);
  }
  attribution.Retain(seen);
  return events;
}

std::vector<core::Event> Monitor::DriverSilent(const std::string& text) {
  std::vector<core::Event> events;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].window.Clear();
    Judge(i, false, false, text, events);
  }
  return events;
}

std::vector<store::GpuUsage> Monitor::CloseUsage(base::Time now) {
  std::vector<store::GpuUsage> rows;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    Device& device = states_[i];
    if (!device.usage || device.usage->last <= device.usage->from || device.usage->last > now)
      continue;
    const Usage& usage = *device.usage;
    const auto span_ms = static_cast<double>((usage.last - usage.from).count());
    store::GpuUsage row;
    row.from = usage.from;
    row.to = usage.last;
    row.gpu_uuid = devices_[i].uuid;
    row.sm_active = usage.sm_known ? usage.sm_ms / span_ms : kUnknown;
    row.used_mib = usage.mib_ms / span_ms;
    row.energy_j = usage.first_energy_j ? *usage.last_energy_j - *usage.first_energy_j : kUnknown;
    row.tasks = static_cast<int>(device.tasks_mib.size());
    row.sm_peak = usage.sm_known ? usage.sm_peak : kUnknown;
    row.used_peak_mib = static_cast<double>(usage.used_peak_mib);
    row.dram_active = usage.dram_known ? usage.dram_ms / span_ms : kUnknown;
    rows.push_back(row);
    Usage next;
    next.from = next.last = usage.last;
    next.first_energy_j = next.last_energy_j = usage.last_energy_j;
    device.usage = next;
  }
  return rows;
}

std::vector<HistoryPoint> Monitor::History(core::GpuIndex gpu, base::Time from,
                                           base::Time to) const {
  if (core::Number(gpu) >= states_.size()) return {};
  const std::deque<HistoryPoint>& kept = states_[core::Number(gpu)].history;
  const auto before = [](const HistoryPoint& point, base::Time t) { return point.taken < t; };
  const auto begin = std::lower_bound(kept.begin(), kept.end(), from, before);
  return {begin, std::lower_bound(begin, kept.end(), to, before)};
}

void Monitor::Acknowledge(core::GpuIndex gpu) {
  if (core::Number(gpu) >= states_.size()) return;
  states_[core::Number(gpu)].drain_told.clear();
}

void Monitor::RestoreDrain(core::GpuIndex gpu, const std::string& why) {
  if (core::Number(gpu) >= states_.size()) return;
  states_[core::Number(gpu)].drain_told = why;
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

std::vector<int> Monitor::RecentXids(core::GpuIndex gpu, base::Time now) const {
  std::vector<int> xids;
  if (core::Number(gpu) >= states_.size()) return xids;
  for (const auto& [taken, xid] : states_[core::Number(gpu)].recent_xids) {
    if (taken >= now - kXidSpan) xids.push_back(xid);
  }
  return xids;
}

const std::optional<gpu::Reading>& Monitor::LastReading(core::GpuIndex gpu) const {
  static const std::optional<gpu::Reading> kNone;
  return core::Number(gpu) < states_.size() ? states_[core::Number(gpu)].last : kNone;
}

std::optional<double> Monitor::WindowMean(core::GpuIndex gpu) const {
  const std::size_t i = core::Number(gpu);
  if (i >= states_.size() || states_[i].window.empty()) return std::nullopt;
  return states_[i].window.SmActive();
}

std::int64_t Monitor::ObservedMib(core::GpuIndex gpu, core::TaskId task) const {
  if (core::Number(gpu) >= states_.size()) return 0;
  const std::map<core::TaskId, std::int64_t>& tasks = states_[core::Number(gpu)].tasks_mib;
  const auto found = tasks.find(task);
  return found == tasks.end() ? 0 : found->second;
}

std::string Monitor::DriverState() const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].healthy) return "GPU " + std::to_string(i) + ": " + states_[i].trouble;
  }
  return devices_.empty() ? "no GPUs" : "ok";
}

}  // namespace carma::daemon
