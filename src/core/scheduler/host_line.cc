// Tasks without GPUs, and promises of the machine's cores and memory.
#include <fmt/format.h>

#include <algorithm>

#include "core/scheduler/scheduler_state.h"

namespace carma::core {

// A GPU that is unused for lack of cores costs more than cores do; still each queue keeps cores and
// memory for its head after the same waiting time as for GPUs.
std::optional<TaskId> Scheduler::State::HostKeptFor(Time at) const {
  const Passed* longest = nullptr;
  for (const Passed* each : {&short_of_host, &first_without_gpus}) {
    const bool kept = config.pass_limit && each->task && at - each->since >= *config.pass_limit &&
                      queue.PlaceOf(*each->task) == Place::kEligible;
    if (kept && (longest == nullptr || each->since < longest->since)) longest = each;
  }
  return longest == nullptr ? std::nullopt : longest->task;
}

HostView Scheduler::State::HostFor(TaskId task, Time at) const {
  const std::optional<TaskId> kept = HostKeptFor(at);
  if (!kept || *kept == task) return host.View();
  return host.ViewWithout(*kept, HostNeedOf(config, tasks.at(*kept).request));
}

bool Scheduler::State::HostTakes(TaskId task, const HostNeed& need) const {
  return need == HostNeed{} || FitsHost(need, HostFor(task, now));
}

bool Scheduler::State::GpusTake(const TaskRecord& task) const {
  const Need need = NeedNow(task);
  const std::vector<GpuView> views = Views(now);
  return std::ranges::count_if(views, [&](const GpuView& view) {
           return FitOf(config, need, view) == Fit::kFits;
         }) >= task.request->gpus;
}

Choice Scheduler::State::WithoutGpus(const TaskRecord& task) const {
  const HostView view = HostFor(task.id, now);
  if (view.cpus == 0) return {.why = "It wants no GPU."};
  return {.why = fmt::format("It wants no GPU: {} of {} CPUs free, {} of {} MiB of memory.",
                             view.free_cpus, view.cpus, view.free_memory_mib, view.memory_mib)};
}

HostShare Scheduler::State::ShareFor(const TaskRecord& task,
                                     const std::vector<Placement>& placement) const {
  std::vector<int> near;
  for (const Placement& each : placement) {
    const std::vector<int>& of_gpu = gpus[Number(each.gpu)].info.near_cpus;
    near.insert(near.end(), of_gpu.begin(), of_gpu.end());
  }
  return host.ShareFor(HostNeedOf(config, task.request), near);
}

// Tasks behind one that must wait may start before it, as among tasks with GPUs.
void Scheduler::State::StartWithoutGpus() {
  const WaitingLine& waiting = queue.Main(LineKind::kWithoutGpus);
  if (waiting.empty()) first_without_gpus = {};
  if (waiting.empty() || closing || launch_trouble.on()) return;
  const auto look = [this] {
    return NoStartSnapshot{
        .line = queue.changes(), .host = host.changes(), .limits = limits.changes()};
  };
  const NoStartSnapshot before = look();
  // If not the whole queue is considered, time may change which tasks are.
  const bool in_one_order = config.order == QueueOrder::kFifo ||
                            waiting.size <= static_cast<std::size_t>(config.backfill);
  const NoStartSnapshot& last = no_start_without_gpus;
  if (in_one_order && last.line == before.line && last.host == before.host &&
      last.limits == before.limits)
    return;
  LineUp line = Line(LineKind::kWithoutGpus);
  std::vector<GpuView> none;
  std::optional<TaskId> first;
  for (int looks = 0; looks < config.backfill;) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    if (TryStart(next->task, none)) {
      if (first && first == first_without_gpus.task) ++first_without_gpus.times;
      continue;
    }
    ++looks;
    if (first) continue;
    first = next->task;
    if (first_without_gpus.task != first) first_without_gpus = {.task = first, .since = now};
  }
  if (!first) first_without_gpus = {};
  no_start_without_gpus = look();
}

void Scheduler::State::NoteShortOfHost() {
  const bool stays = short_of_host.task && queue.PlaceOf(*short_of_host.task) == Place::kEligible;
  if (stays) return;
  short_of_host = {};
  // Without promises nothing is short.
  if (host.tasks() == 0 || queue.Main().empty()) return;
  const std::optional<LineUp::Next> first = MainLine().Pop();
  if (!first) return;
  const TaskRecord& task = tasks.at(first->task);
  if (!HostTakes(task.id, HostNeedOf(config, task.request)) && GpusTake(task))
    short_of_host = {.task = task.id, .since = now};
}

}  // namespace carma::core
