#include "core/scheduler/line.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/policy/same_need.h"
#include "core/scheduler/host_line.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/placement.h"
#include "core/scheduler/task_life.h"

namespace carma::core {
namespace {

// Maximum number of tasks to consider for GPUs that no task ahead of them could ever use.
constexpr std::size_t kBesideLooks = 1'000;

// Closes all GPUs that the waiting task could ever take. The remaining GPUs are open to tasks
// behind it.
void CloseFor(const Need& need, const std::vector<GpuView>& views, std::vector<bool>& open) {
  for (const GpuView& view : views) {
    if (CouldEverTake(need, view)) open[Number(view.index)] = false;
  }
}

bool StartOnOpen(State& state, TaskRecord& task, const std::vector<bool>& open,
                 std::vector<GpuView>& views) {
  if (IsLimited(state, task) || !HostTakes(state, task.id, HostNeedOf(state.config, task.request)))
    return false;
  std::vector<GpuView> left;
  for (const GpuView& view : views) {
    if (open[Number(view.index)]) left.push_back(view);
  }
  std::optional<Choice> choice = ChooseByPolicy(state, task, left);
  if (!choice) return false;
  Start(state, task, *std::move(choice));
  Refresh(state, task.attempt->placement, views);
  return true;
}

// Stops counting the task's time as head of the queue, or resumes if `counts` is true.
void CountAsHead(const State& state, Life& life, bool counts) {
  if (counts)
    *life.head_since += state.now - *std::exchange(life.limited_since, std::nullopt);
  else
    life.limited_since = state.now;
  // While the count is stopped, overtakes_before holds the number of overtakes counted so far.
  life.overtakes_before = state.heads.overtakes - life.overtakes_before;
}

}  // namespace

LineUp Line(const State& state, LineKind kind, const std::optional<LineUp::Newcomer>& newcomer) {
  const LineUp::Rules by{.order = state.config.order,
                         .patience = state.config.fair.patience,
                         .limited = state.limits.Concerns()};
  return LineUp(state.queue.Main(kind), state.shares, by, state.now, state, newcomer);
}

const LineUp::Next* Order::At(std::size_t place) {
  while (popped_.size() <= place) {
    std::optional<LineUp::Next> next = line_.Pop();
    if (!next) return nullptr;
    popped_.push_back(*next);
  }
  return &popped_[place];
}

Order& PassLine::Now() {
  if (!order_ || made_at_ != OrderChanges(state_)) {
    made_at_ = OrderChanges(state_);
    order_.emplace(Line(state_, LineKind::kWithGpus));
  }
  return *order_;
}

const LineUp& PassLine::Whole() {
  if (order_ && order_->popped()) order_.reset();
  return Now().rest();
}

const TaskRecord* State::Find(TaskId id) const {
  const auto at = tasks.find(id);
  return at == tasks.end() ? nullptr : &at->second;
}

double State::WouldTake(const TaskRecord& task) const {
  if (task.request->gpus == 0) {
    const HostNeed need = HostNeedOf(config, task.request);
    return machine.books.PartOf(need.cpus, need.memory_mib);
  }
  const std::int64_t known_mib = task.estimate ? task.estimate->peak_mib : 0;
  const std::int64_t wanted_mib = std::max(known_mib, task.retry_free_mib.value_or(0));
  return RateOf(task, wanted_mib, gpus.largest_mib, KeepsGpusAlone(*this, task));
}

std::optional<LimitHit> LimitOn(const State& state, const TaskRecord& task, Time at) {
  if (!state.limits.Concerns()) return std::nullopt;
  return state.limits.AgainstStart(task, WantsOf(state, task), at);
}

Limits::Wants WantsOf(const State& state, const TaskRecord& task) {
  if (state.limits.CountMemory()) return WantsOf(state, NeedNow(state, task));
  return {.gpus = task.request->gpus, .host = HostNeedOf(state.config, task.request)};
}

Limits::Wants WantsOf(const State& state, const Need& need) {
  const std::int64_t claim_mib = std::max(need.memory_mib.value_or(0), need.retry_free_mib);
  return {.gpus = need.gpus,
          .promised_mib = std::min(claim_mib, state.gpus.largest_mib),
          .host = need.host};
}

bool IsLimited(const State& state, const TaskRecord& task) {
  return LimitOn(state, task, state.now).has_value();
}

std::span<const Limits::BoundBy> State::BoundsOn(const TaskRecord& task) const {
  return limits.Bound(task.request);
}

bool State::IsLimited(const TaskRecord& task, std::span<const Limits::BoundBy> bounds) const {
  if (bounds.empty()) return false;
  return Limits::Against(bounds, WantsOf(*this, task), now).has_value();
}

std::uint64_t OrderChanges(const State& state) {
  return state.queue.changes() + state.shares.changes();
}

Time HeadSince(State& state, TaskId id) {
  Life& life = state.EditLife(id);
  if (!life.head_since || *life.head_since < state.tasks.at(id).queued_since) {
    life.head_since = state.now;
    life.limited_since.reset();
    life.overtakes_before = state.heads.overtakes;
  }
  if (life.limited_since) CountAsHead(state, life, true);
  return *life.head_since;
}

int TimesPassed(const State& state) {
  const std::optional<TaskId>& head = state.heads.passed.task;
  return head ? state.heads.overtakes - state.LifeOf(*head).overtakes_before : 0;
}

void PauseLimitedHeads(State& state, LineKind kind) {
  if (!state.limits.Concerns()) return;
  for (const auto& [key, line] : state.queue.Main(kind).holders) {
    const TaskId id = line.tasks.begin()->task;
    const Life& life = state.LifeOf(id);
    if (!life.head_since) continue;
    const TaskRecord& first = state.tasks.at(id);
    if (*life.head_since < first.queued_since) continue;
    const bool counts = !IsLimited(state, first);
    if (counts == life.limited_since.has_value())
      CountAsHead(state, state.EditLife(first.id), counts);
  }
}

void NoteHead(State& state, PassLine& pass) {
  PauseLimitedHeads(state, LineKind::kWithGpus);
  state.heads.noted = OrderChanges(state);
  const LineUp::Next* first = pass.Now().At(0);
  if (first == nullptr) {
    state.heads.passed = {};
  } else if (state.heads.passed.task != first->task) {
    state.heads.passed = {.task = first->task, .since = HeadSince(state, first->task)};
  }
}

NoStartSnapshot LookNow(const State& state, const std::vector<GpuView>& views) {
  NoStartSnapshot look{.line = state.queue.changes(),
                       .host = state.machine.books.changes(),
                       .host_kept = HostKeptFor(state, state.now),
                       .lessons = state.lessons.changes(),
                       .limits = state.limits.changes(),
                       .booked = state.reservations.changes(),
                       .shares = state.shares.changes()};
  look.gpus.reserve(views.size());
  for (const GpuView& view : views)
    look.gpus.push_back(
        FingerprintOf(state.config, view, state.gpus.all[Number(view.index)].crowd));
  return look;
}

bool OpensNothingSince(const State& state, const NoStartSnapshot& look) {
  return look.host == state.passes.no_start->host &&
         look.host_kept == state.passes.no_start->host_kept &&
         look.lessons == state.passes.no_start->lessons &&
         look.limits == state.passes.no_start->limits &&
         look.booked == state.passes.no_start->booked &&
         std::ranges::equal(state.passes.no_start->gpus, look.gpus, OpensNothing);
}

std::vector<bool> OpenedSince(const State& state, const NoStartSnapshot& look) {
  std::vector<bool> opened(look.gpus.size(), true);
  if (!state.passes.no_start || state.passes.no_start->gpus.size() != look.gpus.size() ||
      state.config.require || look.lessons != state.passes.no_start->lessons ||
      look.booked != state.passes.no_start->booked) {
    return opened;
  }
  for (std::size_t i = 0; i < opened.size(); ++i)
    opened[i] = !OpensNothing(state.passes.no_start->gpus[i], look.gpus[i]) ||
                state.passes.taken_since.contains(GpuIndex{static_cast<std::uint32_t>(i)});
  return opened;
}

bool SameLineSince(const State& state, const NoStartSnapshot& look) {
  if (look.line != state.passes.no_start->line) return false;
  const bool all = state.queue.Main().size <= static_cast<std::size_t>(state.config.backfill);
  if (state.config.order == QueueOrder::kFifo || all) return true;
  return look.shares == state.passes.no_start->shares &&
         (!state.passes.no_start->order_until || state.now < *state.passes.no_start->order_until);
}

void StartInOrder(State& state, std::vector<GpuView>& views, PassLine& pass) {
  Order& line = pass.Now();
  std::unordered_multimap<std::size_t, Need> wanted;  // needs that no GPU could meet in this pass
  std::unordered_set<std::uint32_t> users;            // users with a task on a GPU
  for (const GpuView& view : views) {
    for (const Neighbour& each : view.residents) users.insert(each.load.user);
  }
  TaskSet looked_at;
  int waiting = 0;
  for (std::size_t place = 0; waiting < state.config.backfill; ++place) {
    const LineUp::Next* next = line.At(place);
    if (next == nullptr) break;
    const TaskId id = next->task;
    if (!state.passes.refused.Contains(id)) {
      Need need = NeedNow(state, *next->record);
      NoteWhatItAwaits(state, *next->record, need);
      // Users without a task on any GPU all get the same verdicts, so their tasks' requirements are
      // compared as if they came from one user.
      const std::uint32_t user = need.load.load.user;
      if (!users.contains(user)) need.load.load.user = kNoMpsClient;
      const std::size_t hash = HashOf(need);
      const auto [from, to] = wanted.equal_range(hash);
      const bool asked =
          std::any_of(from, to, [&](const auto& each) { return AskTheSame(each.second, need); });
      if (!asked && TryStart(state, id, views)) {
        users.insert(user);
        if (waiting > 0) ++state.heads.overtakes;
        continue;
      }
      if (!asked) wanted.emplace(hash, need);
    }
    looked_at.Insert(id);
    ++waiting;
  }
  state.passes.refused = std::move(looked_at);
}

void StartBeside(State& state, std::vector<GpuView>& views, PassLine& pass) {
  const auto looked_at = static_cast<std::size_t>(state.config.backfill);
  if (state.queue.Main().size <= looked_at) return;
  std::vector<bool> open(views.size(), true);
  Order& line = pass.Now();
  for (std::size_t place = 0; place < kBesideLooks; ++place) {
    const LineUp::Next* next = line.At(place);
    if (next == nullptr) return;
    TaskRecord& task = state.tasks.at(next->task);
    if (place >= looked_at && StartOnOpen(state, task, open, views)) continue;
    const Need need = NeedNow(state, task);
    if (place >= looked_at) NoteWhatItAwaits(state, task, need);
    CloseFor(need, views, open);
    if (std::ranges::none_of(open, std::identity())) return;
  }
}

bool HasPlaceBeside(const State& state, const TaskRecord& task, Time at) {
  if (state.config.pacing != Pacing::kImmediate) return false;
  const std::vector<GpuView> views = Views(state, at);
  std::vector<bool> open(views.size(), true);
  LineUp line = Line(state, LineKind::kWithGpus);
  for (std::size_t place = 0; place < kBesideLooks; ++place) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next || std::ranges::none_of(open, std::identity())) return false;
    if (next->task == task.id) break;
    CloseFor(NeedNow(state, *next->record), views, open);
  }
  const Need need = NeedNow(state, task);
  return std::ranges::count_if(views, [&](const GpuView& view) {
           return open[Number(view.index)] && CouldEverTake(need, view);
         }) >= need.gpus;
}

}  // namespace carma::core
