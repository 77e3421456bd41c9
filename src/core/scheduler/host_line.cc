#include "core/scheduler/host_line.h"
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/scheduler/learning.h"
#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"

namespace carma::core {
namespace {

bool GpusTake(const State& state, const TaskRecord& task) {
  const Need need = NeedNow(state, task);
  const std::vector<GpuView> views = Views(state, state.now);
  const auto fit = [&](Part part) {
    return std::ranges::count_if(views, [&](const GpuView& view) {
      return FitOf(state.config, need, view, part) == Fit::kFits;
    });
  };
  return fit(Part::kOther) >= task.request->gpus && fit(Part::kFirst) > 0;
}

}  // namespace

std::optional<TaskId> HostKeptFor(const State& state, Time at) {
  const Passed* longest = nullptr;
  for (const Passed* each : {&state.heads.short_of_host, &state.heads.without_gpus}) {
    if (each == &state.heads.short_of_host && !state.heads.short_of_host_first) continue;
    const bool kept = state.config.pass_limit && each->task &&
                      at - each->since >= *state.config.pass_limit &&
                      state.queue.PlaceOf(*each->task) == Place::kEligible;
    if (kept && (longest == nullptr || each->since < longest->since)) longest = each;
  }
  return longest == nullptr ? std::nullopt : longest->task;
}

HostView HostFor(const State& state, TaskId task, Time at) {
  const std::optional<TaskId> kept = HostKeptFor(state, at);
  // The task for which GPUs are kept may also use cores and memory that are kept for another task.
  // Otherwise the two could deadlock, one waiting for the cores and the other for the GPUs.
  if (!kept || *kept == task || state.recovery_hold.task() == task)
    return state.machine.books.View();
  return state.machine.books.ViewWithout(*kept,
                                         HostNeedOf(state.config, state.tasks.at(*kept).request));
}

bool HostTakes(const State& state, TaskId task, const HostNeed& need) {
  return need == HostNeed{} || FitsHost(need, HostFor(state, task, state.now));
}

Choice WithoutGpus(const State& state, const TaskRecord& task) {
  const HostView view = HostFor(state, task.id, state.now);
  if (view.cpus == 0) return {.why = "It needs no GPU."};
  return {.why = fmt::format("It needs no GPU: {} of {} CPUs and {} of {} of memory are free.",
                             view.free_cpus, view.cpus, base::FormatMib(view.free_memory_mib),
                             base::FormatMib(view.memory_mib))};
}

HostShare ShareFor(const State& state, const TaskRecord& task,
                   const std::vector<Placement>& placement) {
  std::vector<int> near;
  for (const Placement& each : placement) {
    const std::vector<int>& of_gpu = state.gpus.all[Number(each.gpu)].info.near_cpus;
    near.insert(near.end(), of_gpu.begin(), of_gpu.end());
  }
  return state.machine.books.ShareFor(HostNeedOf(state.config, task.request), near);
}

// If a task does not fit, tasks behind it may start first, as in the queue of tasks with GPUs.
void StartWithoutGpus(State& state) {
  const WaitingLine& waiting = state.queue.Main(LineKind::kWithoutGpus);
  if (waiting.empty()) state.heads.without_gpus = {};
  if (waiting.empty() || state.closing || state.launch_trouble.on()) return;
  const auto look = [&state] {
    return NoStartSnapshot{.line = state.queue.changes(),
                           .host = state.machine.books.changes(),
                           .limits = state.limits.changes()};
  };
  const NoStartSnapshot before = look();
  // In fair order, the first `backfill` tasks can change without an event, simply because time
  // passes.
  const bool in_one_order = state.config.order == QueueOrder::kFifo ||
                            waiting.size <= static_cast<std::size_t>(state.config.backfill);
  const NoStartSnapshot& last = state.passes.no_start_without_gpus;
  if (in_one_order && last.line == before.line && last.host == before.host &&
      last.limits == before.limits)
    return;
  LineUp line = Line(state, LineKind::kWithoutGpus);
  std::vector<GpuView> none;
  std::optional<TaskId> first;
  for (int looks = 0; looks < state.config.backfill;) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    if (TryStart(state, next->task, none)) continue;
    ++looks;
    if (first) continue;
    first = next->task;
    if (state.heads.without_gpus.task != first)
      state.heads.without_gpus = {.task = first, .since = HeadSince(state, *first)};
  }
  if (!first) state.heads.without_gpus = {};
  PauseLimitedHeads(state, LineKind::kWithoutGpus);
  state.passes.no_start_without_gpus = look();
}

void NoteShortOfHost(State& state) {
  Passed& short_of_host = state.heads.short_of_host;
  const bool waits = short_of_host.task &&
                     state.queue.PlaceOf(*short_of_host.task) == Place::kEligible &&
                     state.LifeOf(*short_of_host.task).head_since &&
                     !state.LifeOf(*short_of_host.task).limited_since;
  if (!waits) short_of_host = {};
  // If no running task has been promised cores or memory, all of them are free and no task can be
  // short of them.
  if (!waits && (state.machine.books.tasks() == 0 || state.queue.Main().empty())) return;
  const std::optional<LineUp::Next> first = Line(state, LineKind::kWithGpus).Pop();
  const bool is_first = first && first->task == short_of_host.task;
  if (std::exchange(state.heads.short_of_host_first, is_first) && !is_first) state.passes.Forget();
  if (!first || state.heads.short_of_host_first) return;
  const TaskRecord& task = state.tasks.at(first->task);
  if (HostTakes(state, task.id, HostNeedOf(state.config, task.request)) || !GpusTake(state, task))
    return;
  short_of_host = {.task = task.id, .since = HeadSince(state, task.id)};
  state.heads.short_of_host_first = true;
}

}  // namespace carma::core
