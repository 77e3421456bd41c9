#include "daemon/gpus/gpu_use.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace carma::daemon {
namespace {

constexpr std::string_view kAlone = "alone";
constexpr std::string_view kKernelTime = "kernel-time";
constexpr std::string_view kEqual = "equal";
// A process that only draws and has less memory than this is part of a desktop. Otherwise a
// display server, which opens every GPU, would keep tasks from ever having a GPU to themselves.
constexpr std::int64_t kDisplayMib = 512;

// in_group: true if the driver reports the memory of the process's whole control group instead of
// the process's own memory.
void AddProcess(const gpu::ProcessUse& process, bool in_group, TaskUse& task) {
  task.used_mib += in_group ? 0 : process.used_mib.value_or(0);
  task.pids.push_back(process.pid);
  if (!in_group && !process.used_mib) task.memory_told = false;
  if (task.kernel_time && process.kernel_time) {
    task.kernel_time = std::min(1.0, *task.kernel_time + *process.kernel_time);
  } else {
    task.kernel_time.reset();
  }
}

std::optional<std::int64_t> OfNobody(const gpu::Reading& reading, const GpuUse& use) {
  if (reading.processes_hidden) return std::nullopt;
  std::int64_t of_nobody_mib = reading.used_mib;
  for (const auto& [id, task] : use.tasks) {
    if (!task.memory_told) return std::nullopt;
    of_nobody_mib -= task.used_mib;
  }
  for (const Stranger& stranger : use.strangers) {
    if (!stranger.used_mib) return std::nullopt;
    of_nobody_mib -= *stranger.used_mib;
  }
  return std::max<std::int64_t>(0, of_nobody_mib);
}

// Total kernel time of all processes on the GPU. Empty if the total is 0, or if the kernel time of
// any process is unknown.
std::optional<double> AllKernelTime(const GpuUse& use) {
  double all = 0;
  for (const auto& [id, task] : use.tasks) {
    if (!task.kernel_time) return std::nullopt;
    all += *task.kernel_time;
  }
  for (const Stranger& stranger : use.strangers) {
    if (stranger.mps_server || stranger.display) continue;
    if (!stranger.kernel_time) return std::nullopt;
    all += *stranger.kernel_time;
  }
  return all > 0 ? std::optional(all) : std::nullopt;
}

GpuUse UseOf(const gpu::Reading& reading, const SeenProcesses& seen, Attribution& attribution) {
  GpuUse use{.memory_told = !reading.processes_hidden};
  std::map<core::TaskId, std::int64_t> groups_mib;
  for (const gpu::ProcessUse& process : reading.processes) {
    static const SeenProcess kUnseen;
    const auto found = seen.find(process.pid);
    const SeenProcess& its = found == seen.end() ? kUnseen : found->second;
    const std::optional<core::TaskId> task =
        process.mps_server ? std::nullopt : attribution.Find(process.pid, its);
    const bool in_group = task && attribution.IsGroupOf(*task, process.group);
    if (!process.mps_server && !in_group && !process.used_mib) use.memory_told = false;
    // A group's memory includes that of its subgroups, so the maximum is used instead of the sum.
    if (in_group) groups_mib[*task] = std::max(groups_mib[*task], process.group_mib);
    if (task) {
      AddProcess(process, in_group, use.tasks[*task]);
    } else {
      const base::ProcessId id = its.line.empty() ? base::ProcessId{process.pid} : its.line.front();
      const bool display = process.graphics && process.used_mib.value_or(kDisplayMib) < kDisplayMib;
      use.strangers.push_back(
          {id, its.face, process.used_mib, process.mps_server, process.kernel_time, display});
    }
  }
  for (const auto& [task, mib] : groups_mib) use.tasks[task].used_mib += mib;
  use.unattributed_mib = OfNobody(reading, use);
  return use;
}

}  // namespace

int GpuUse::ForeignProcesses() const {
  return static_cast<int>(std::ranges::count_if(
      strangers, [](const Stranger& each) { return !each.mps_server && !each.display; }));
}

std::vector<GpuUse> WhoUses(const gpu::Round& round, const SeenProcesses& seen,
                            Attribution& attribution) {
  std::vector<GpuUse> uses(round.size());
  for (std::size_t i = 0; i < round.size(); ++i) {
    if (round[i] && *round[i]) uses[i] = UseOf(**round[i], seen, attribution);
  }
  attribution.Retain(seen);
  return uses;
}

void SmShares::Take(const gpu::Reading& reading, const GpuUse& use, base::Duration tau) {
  const std::map<core::TaskId, SmShare> before = std::exchange(shares_, {});
  const double span = base::Seconds(reading.taken - std::exchange(last_, reading.taken));
  if (!reading.sm_active) return;
  const auto residents = use.tasks.size() + static_cast<std::size_t>(use.ForeignProcesses());
  const std::optional<double> all = AllKernelTime(use);
  const double weight = 1 - std::exp(-span / base::Seconds(tau));
  for (const auto& [id, task] : use.tasks) {
    SmShare now;
    now.by = residents == 1 ? kAlone : all ? kKernelTime : kEqual;
    const double part = residents == 1 ? 1
                        : all          ? *task.kernel_time / *all
                                       : 1.0 / static_cast<double>(residents);
    now.sm_active = *reading.sm_active * part;
    // Smooths a value only with earlier values from the same method.
    if (const auto old = before.find(id); old != before.end() && old->second.by == now.by)
      now.sm_active = old->second.sm_active + weight * (now.sm_active - old->second.sm_active);
    shares_[id] = now;
  }
}

std::optional<SmShare> SmShares::Of(core::TaskId task) const {
  const auto found = shares_.find(task);
  return found == shares_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace carma::daemon
