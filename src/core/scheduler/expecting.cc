#include "core/scheduler/expecting.h"

#include <algorithm>

#include "core/forecast/likely.h"
#include "core/policy/slots.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/line.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/planned_books.h"
#include "core/scheduler/time_slices.h"

namespace carma::core {
namespace {

// The time from a task's time limit, or the end of its time slice, until its processes are gone and
// the GPU has been sampled.
constexpr Duration kEnding{60'000};

// The position of recovery tasks, which go before the main queue.
constexpr QueueKey kBeforeAll{.less_priority = std::numeric_limits<std::int64_t>::min()};

Duration OfSeconds(double seconds) {
  return Duration(static_cast<std::int64_t>(seconds * 1000));
}

std::optional<Duration> Shorter(const std::optional<Duration>& a,
                                const std::optional<Duration>& b) {
  if (a && b) return std::min(*a, *b);
  return a ? a : b;
}

GpuView EmptyView(const State& state, GpuIndex index) {
  const GpuState& gpu = state.gpus.all[Number(index)];
  return {.index = index,
          .total_mib = gpu.info.UsableMib(),
          .free_mib = gpu.info.UsableMib(),
          .mig = gpu.info.mig,
          .compute = gpu.info.compute,
          .pace = gpu.pace};
}

// True if another task can preempt this one. A preempted task returns to its old place in the
// queue.
bool MayBePreempted(const State& state, const TaskRecord& task, const WholeLine& line) {
  const std::int64_t priority = PriorityOf(state.config, task.request);
  const QosClass* const own = ClassOf(state.config.classes, task.request);
  return own != nullptr && own->preemptible && task.request->requeue &&
         line.preempting.value_or(priority) > priority;
}

// True if the task may return to the queue, with its full time limit, ahead of a waiting task. With
// kInOrder, a task whose time slice has ended goes ahead only of tasks of lower priority.
bool MayComeBack(const State& state, const TaskRecord& task, const WholeLine& line) {
  const bool in_order = line.pass == Pass::kInOrder;
  const bool before_some = PriorityOf(state.config, task.request) > line.lowest;
  return MayBePreempted(state, task, line) ||
         (TakesTurns(state.config.slots, task) && (!in_order || before_some));
}

// True if the task leaves at the end of its time slice because any queued task could replace it.
bool LeavesByTurn(const State& state, const TaskRecord& task, const WholeLine& line) {
  return TakesTurns(state.config.slots, task) &&
         PriorityOf(state.config, task.request) <= line.lowest &&
         !MayBePreempted(state, task, line);
}

// Requirements of a queued or new task.
Need NeedOfOne(const State& state, const TaskRecord& task) {
  if (task.id != kNewcomer) return NeedNow(state, task);
  Need need = NeedOf(state.config, task);
  AddWhere(state, task.request, ChoiceOf(task.request, state.gpus.infos), need);
  return need;
}

ExpectedTask ExpectedOf(const State& state, const TaskRecord& task, const WholeLine& line) {
  Need need = NeedOfOne(state, task);
  ExpectedTask expected{.gpus = static_cast<std::size_t>(std::max(0, task.request->gpus))};
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i)
    expected.may.push_back(FitOf(state.config, need, EmptyView(state, GpuIndex{i})) == Fit::kFits);
  // The GPUs must be linked, so the task might have to wait until all GPUs that it may use are
  // empty.
  if (need.linked) expected.gpus = static_cast<std::size_t>(std::ranges::count(expected.may, true));
  expected.runs_into = task.request->time_limit.value_or(state.config.booking_lead);
  expected.own_reservations = std::move(need.own_reservations);
  if (task.request->time_limit && !MayComeBack(state, task, line))
    expected.takes = *task.request->time_limit + kEnding;
  if (line.by_turns && expected.takes) *expected.takes += state.config.slots.notice;
  if (line.by_turns && LeavesByTurn(state, task, line))
    expected.takes = Shorter(expected.takes, TurnOf(state.config.slots, task) + kEnding);
  return expected;
}

// The running tasks that can return to the queue.
std::vector<ExpectedReturn> Returning(const State& state, const WholeLine& line) {
  std::vector<ExpectedReturn> returning;
  for (const auto& [id, held] : state.ledger.Tasks()) {
    const TaskRecord& task = state.tasks.at(id);
    if (!MayComeBack(state, task, line)) continue;
    if (line.by_turns && LeavesByTurn(state, task, line)) continue;
    const ExpectedTask again = ExpectedOf(state, task, line);
    ExpectedReturn each{.gpus = again.gpus,
                        .may = again.may,
                        .holds = std::vector<bool>(state.gpus.all.size(), false)};
    for (const GpuIndex gpu : state.ledger.GpusOf(id)) each.holds[Number(gpu)] = true;
    returning.push_back(std::move(each));
  }
  return returning;
}

// The time by which all tasks on the GPU will have ended. Empty if unknown.
std::optional<Time> EndOn(const State& state, GpuIndex index, Time at, const WholeLine& line) {
  const GpuState& gpu = state.gpus.all[Number(index)];
  const bool strangers = gpu.sample && gpu.sample->foreign_processes > 0;
  if (!gpu.healthy || gpu.Drained() || strangers) return std::nullopt;
  Time end = at;
  for (const Resident& resident : state.ledger.ResidentsOf(index)) {
    const TaskRecord& task = state.tasks.at(resident.task);
    std::optional<Time> latest;
    if (task.state == TaskState::kStopping) {
      latest = at + kEnding;
    } else if (task.request->time_limit) {
      const Time from = task.attempt->started.value_or(at);
      latest = std::max(at, from + *task.request->time_limit) + kEnding;
    }
    if (task.state != TaskState::kStopping && MayComeBack(state, task, line)) latest.reset();
    // A task is asked to leave once its departure makes room for another task, at the latest when
    // all other tasks on its GPU have ended.
    if (line.by_turns && latest) *latest += state.config.slots.notice;
    if (line.by_turns && LeavesByTurn(state, task, line)) {
      const Time over = task.attempt->started.value_or(at) + TurnOf(state.config.slots, task);
      const Time left = std::max(at + state.config.slots.notice, over) + kEnding;
      latest = std::min(latest.value_or(left), left);
    }
    if (!latest) return std::nullopt;
    end = std::max(end, *latest);
  }
  return end;
}

Pass PassThrough(const State& state, const std::vector<const TaskRecord*>& line) {
  const bool first_only = FirstOnly(state);
  if (first_only && state.config.order == QueueOrder::kFifo) return Pass::kInOrder;
  const bool several =
      std::ranges::any_of(line, [](const TaskRecord* task) { return task->request->gpus > 1; });
  if (several && state.config.pass_limit && !first_only) return Pass::kOneAtATime;
  return line.size() > static_cast<std::size_t>(state.config.backfill) ? Pass::kAnyOrder
                                                                       : Pass::kFreely;
}

WholeLine WholeLineOf(const State& state, const std::vector<const TaskRecord*>& in_line) {
  WholeLine line{.pass = PassThrough(state, in_line)};
  const auto note_preempting = [&](const TaskRecord& task) {
    const std::int64_t priority = PriorityOf(state.config, task.request);
    const QosClass* const own = ClassOf(state.config.classes, task.request);
    if (own != nullptr && own->preempts)
      line.preempting = std::max(line.preempting.value_or(priority), priority);
  };
  for (const TaskRecord* task : in_line) {
    line.lowest = std::min(line.lowest, PriorityOf(state.config, task->request));
    note_preempting(*task);
  }
  // Running tasks count too: one that returns to the queue after its time slice may preempt others.
  for (const auto& [id, held] : state.ledger.Tasks()) {
    if (TakesTurns(state.config.slots, state.tasks.at(id))) note_preempting(state.tasks.at(id));
  }
  return line;
}

// The latest starts if every task runs for as long as its time limit allows.
std::vector<std::optional<Time>> StartsByLimits(const State& state, Time at,
                                                const std::vector<const TaskRecord*>& in_line,
                                                const WholeLine& line) {
  std::vector<ExpectedGpu> ends;
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i)
    ends.push_back({EndOn(state, GpuIndex{i}, at, line), state.reservations.On(GpuIndex{i})});
  std::vector<ExpectedTask> limited;
  limited.reserve(in_line.size());
  for (const TaskRecord* task : in_line) limited.push_back(ExpectedOf(state, *task, line));
  return LatestStarts(at, ends, limited, line.pass, Returning(state, line));
}

// The starts that become possible when time slices end, up to the first task that needs linked
// GPUs. Empty if GPUs are shared (several tasks might have to leave for one start), if GPUs are
// reserved, or if tasks wait for recovery.
std::vector<std::optional<Time>> StartsByTurns(const State& state, Time at,
                                               const std::vector<const TaskRecord*>& in_line,
                                               WholeLine line) {
  if (!state.config.slots.length || state.mapper_entry->shares || line.pass != Pass::kInOrder ||
      !state.reservations.empty() || !state.queue.Recovery().empty()) {
    return {};
  }
  line.by_turns = true;
  std::vector<ExpectedGpu> ends;
  for (std::uint32_t i = 0; i < state.gpus.all.size(); ++i)
    ends.push_back({EndOn(state, GpuIndex{i}, at, line), {}});
  std::vector<ExpectedTask> expected;
  for (const TaskRecord* task : in_line) {
    if (task->request->linked_gpus) break;
    expected.push_back(ExpectedOf(state, *task, line));
  }
  return LatestStarts(at, ends, expected, line.pass, Returning(state, line),
                      state.config.slots.notice + kEnding);
}

// When a task for which there is room will start: once the samples of enough GPUs include the task
// most recently started there.
Time OnceSettled(const State& state, const Need& need, Time at) {
  std::vector<Time> opening;
  for (GpuView view : Views(state, at)) {
    if (FitOf(state.config, need, view) == Fit::kFits) view.settles_by.reset();
    view.settled = true;
    if (FitOf(state.config, need, view) == Fit::kFits)
      opening.push_back(std::max(at, view.settles_by.value_or(at)));
  }
  std::ranges::sort(opening);
  const auto last = static_cast<std::size_t>(std::max(1, need.gpus)) - 1;
  return last < opening.size() ? opening[last] : at;
}

// Drops the tasks that a limit will keep waiting once those ahead of them have started.
void DropLimited(const State& state, std::vector<const TaskRecord*>& in_line) {
  if (!state.limits.Concerns()) return;
  PlannedBooks books(state);
  std::set<LineKey> limited;
  std::erase_if(in_line, [&](const TaskRecord* task) {
    if (!state.limits.MayKeep(task->request)) return false;
    const bool main = task->queue == QueueKind::kMain;
    if (main && limited.contains(LineOf(*task))) return true;
    const Need need = NeedOfOne(state, *task);
    const bool waits = books.IsLimited(state, *task, need);
    if (!waits) books.Start(state, *task, need);
    if (waits && main) limited.insert(LineOf(*task));
    return waits;
  });
}

// Tasks are passed over while they wait for a limit, their array, another task, their begin time or
// a retry; they may later start before the tasks behind them. Returns the position of the first
// such task. Ignores tasks on hold.
std::optional<QueueKey> FirstPassedOver(const State& state) {
  std::optional<QueueKey> first;
  const auto note = [&](const QueueKey& key) { first = std::min(first.value_or(key), key); };
  const WaitingLine& main = state.queue.Main();
  for (const auto& [key, line] : main.holders) {
    const TaskRecord& task = state.tasks.at(line.tasks.begin()->task);
    if (state.limits.Concerns() && state.limits.MayKeep(task.request)) note(*line.tasks.begin());
  }
  if (state.queue.size() == main.size + state.queue.Recovery().size()) return first;
  for (const auto& [id, task] : state.tasks) {
    const std::optional<Place> place = state.queue.PlaceOf(id);
    if (task.request->gpus == 0 || !place || *place == Place::kEligible || *place == Place::kHeld ||
        *place == Place::kUnfit)
      continue;
    note(task.queue == QueueKind::kMain ? state.queue.KeyOf(task) : kBeforeAll);
  }
  return first;
}

// The likely starts of the first `most` tasks.
std::vector<std::optional<Time>> LikelyOf(const State& state, Time at,
                                          const std::vector<const TaskRecord*>& in_line,
                                          std::size_t most) {
  const auto turn_s = [&](const TaskRecord& task, std::optional<Duration> most_time) {
    if (TakesTurns(state.config.slots, task))
      most_time = Shorter(most_time, TurnOf(state.config.slots, task));
    return most_time;
  };
  std::vector<LikelyRun> running;
  for (const auto& [id, held] : state.ledger.Tasks()) {
    const TaskRecord& task = state.tasks.at(id);
    LikelyRun run{.task = id, .left_s = LeftS(state, task)};
    if (const auto longest = turn_s(task, task.request->time_limit)) {
      const Time ends = task.attempt->started.value_or(at) + *longest;
      run.most_s = std::max(0.0, base::Seconds(ends - at));
    }
    if (state.preemptions.room_for.contains(id) && task.attempt->leaves_by) {
      const double left_s = std::max(0.0, base::Seconds(*task.attempt->leaves_by - at));
      run.most_s = std::min(run.most_s.value_or(left_s), left_s);
    }
    running.push_back(run);
  }
  LikelyLine line;
  line.tasks.reserve(in_line.size());
  for (const TaskRecord* task : in_line) {
    const bool stops = task->queue == QueueKind::kMain;
    LikelyStart start{.need = NeedOfOne(state, *task), .run = {.task = task->id}, .stops = stops};
    if (state.heads.passed.task == task->id)
      line.first_for_s = base::Seconds(at - state.heads.passed.since),
      line.passed = TimesPassed(state) > 0;
    start.run.left_s = LeftS(state, *task);
    if (const auto longest = turn_s(*task, task->request->time_limit))
      start.run.most_s = base::Seconds(*longest);
    line.tasks.push_back(std::move(start));
  }
  std::vector<std::optional<Time>> starts;
  Time ahead = at;  // start of the task ahead, if tasks may not pass each other
  for (const std::optional<double>& each :
       LikelyStarts(state.config, PreemptionPlanNow(state), running, line, most)) {
    const LikelyStart& task = line.tasks[starts.size()];
    starts.push_back(each ? std::optional(at + OfSeconds(*each)) : std::nullopt);
    if (each == 0.0) starts.back() = OnceSettled(state, task.need, at);
    if (!each || !task.stops || !FirstOnly(state)) continue;
    starts.back() = ahead = std::max(ahead, *starts.back());
  }
  return starts;
}

}  // namespace

LineUp::Newcomer NewcomerOf(const State& state, const TaskRecord& task) {
  return {LineOf(task), UserOf(task.request), state.queue.KeyOf(task)};
}

bool FirstOnly(const State& state) {
  return state.config.backfill == 1 && !state.mapper_entry->chooses_task;
}

std::vector<TaskId> InLine(const State& state, LineKind kind, std::size_t most,
                           const TaskRecord* newcomer) {
  std::vector<TaskId> first;
  if (kind == LineKind::kWithGpus) {
    for (const QueueKey& key : state.queue.Recovery()) {
      if (first.size() < most) first.push_back(key.task);
    }
  }
  LineUp line =
      Line(state, kind,
           newcomer == nullptr ? std::nullopt : std::optional(NewcomerOf(state, *newcomer)));
  while (first.size() < most) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    first.push_back(next->task);
  }
  return first;
}

std::map<TaskId, ExpectedStart> ExpectedStarts(const State& state, Time at,
                                               const TaskRecord* newcomer, std::size_t most) {
  // Nothing is predicted under site rules or the rules of the published systems, because they may
  // exclude a task even from an empty GPU.
  if (most == 0 || state.config.require || state.config.pacing != Pacing::kImmediate ||
      state.closing || state.launch_trouble.on())
    return {};
  std::vector<const TaskRecord*> line;
  for (const TaskId id : InLine(state, LineKind::kWithGpus, kLongestTold + 1, newcomer))
    line.push_back(id == kNewcomer ? newcomer : &state.tasks.at(id));
  DropLimited(state, line);
  // There is no way to predict when the machine's cores and memory become free.
  const auto by_host = std::ranges::find_if(line, [&state](const TaskRecord* task) {
    return HostNeedOf(state.config, task->request) != HostNeed{};
  });
  const WholeLine all = WholeLineOf(state, line);
  const Pass pass = all.pass;
  if (by_host != line.end() && pass != Pass::kInOrder) return {};
  line.erase(by_host, line.end());
  // If the queue is served in order, a task is delayed only by tasks ahead of it. Otherwise any
  // task may delay it, but `line` might not contain all tasks.
  const bool all_known = line.size() <= kLongestTold;
  if (pass == Pass::kInOrder || !all_known) line.resize(std::min(line.size(), most));
  if (line.empty()) return {};

  auto latest = pass == Pass::kInOrder || all_known ? StartsByLimits(state, at, line, all)
                                                    : std::vector<std::optional<Time>>(line.size());
  const auto by_turns = StartsByTurns(state, at, line, all);
  for (std::size_t i = 0; i < by_turns.size(); ++i) {
    if (by_turns[i]) latest[i] = std::min(latest[i].value_or(*by_turns[i]), *by_turns[i]);
  }
  const auto about = LikelyOf(state, at, line, most);

  // A mapper with look-ahead may leave GPUs empty if all tasks finish earlier as a result.
  const bool may_wait = state.mapper_entry->chooses_task && state.config.lookahead > 0 &&
                        state.config.order == QueueOrder::kFifo;
  const std::optional<QueueKey> passed_over = FirstPassedOver(state);
  std::map<TaskId, ExpectedStart> starts;
  for (std::size_t i = 0; i < std::min(most, line.size()); ++i) {
    ExpectedStart start{.latest = latest[i], .likely = about[i]};
    const bool behind =
        passed_over && (pass != Pass::kInOrder || (line[i]->queue == QueueKind::kMain &&
                                                   *passed_over < state.queue.KeyOf(*line[i])));
    if (may_wait || behind || state.limits.MayKeep(line[i]->request)) start.latest.reset();
    if (start.latest && start.likely) start.likely = std::min(*start.likely, *start.latest);
    if (start.latest || start.likely) starts.emplace(line[i]->id, start);
  }
  return starts;
}

}  // namespace carma::core
