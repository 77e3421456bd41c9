#include "core/scheduler/best_first.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "core/forecast/future.h"
#include "core/policy/same_need.h"
#include "core/scheduler/host_line.h"
#include "core/scheduler/learning.h"
#include "core/scheduler/placement.h"

namespace carma::core {
namespace {

// Look-ahead simulates at most this many tasks of the queue.
constexpr std::size_t kLongestLine = 48;
// Mappers that score by added work reduce a task's score by this factor times LineUp::Excess of its
// line.
constexpr double kExcessCosts = 1;
// A multiplier that spreads consecutive numbers over the hash table.
constexpr std::size_t kScatter = 0x9e3779b97f4a7c15;

struct Best {
  double score = kNotThere;
  std::size_t gpu = 0;
};
// The GPUs that the group's next task would start on. Empty if too few GPUs can take it.
std::vector<Best> BestGpus(const Group& group, const GpuLinks& links) {
  std::vector<GpuLinks::Candidate> candidates;
  for (std::size_t i = 0; i < group.scores.size(); ++i) {
    if (group.scores[i] != kNotThere)
      candidates.push_back({.gpu = GpuIndex{static_cast<std::uint32_t>(i)},
                            .score = group.scores[i],
                            .may_be_first = !group.need.others_mib || group.may_be_first[i]});
  }
  std::vector<Best> best;
  for (const GpuIndex gpu : links.ChooseFor(group.need, std::move(candidates)))
    best.push_back({group.scores[Number(gpu)], Number(gpu)});
  return best;
}

// Does not build a list for tasks that need one GPU, because this runs for up to a thousand tasks
// at each start.
double ScoreOf(const Group& group, const GpuLinks& links) {
  if (group.need.gpus == 1) return std::ranges::max(group.scores);
  const std::vector<Best> best = BestGpus(group, links);
  if (best.empty()) return kNotThere;
  double sum = 0;
  for (const Best& each : best) sum += each.score;
  return sum / static_cast<double>(best.size());
}

std::vector<std::size_t> IndicesOf(const std::vector<Best>& best) {
  std::vector<std::size_t> gpus;
  for (const Best& each : best) gpus.push_back(each.gpu);
  return gpus;
}

bool IsOnNoGpu(const Group& group) {
  return std::ranges::all_of(group.scores, [](double each) { return each == kNotThere; });
}

// The group to start next: starving groups go first, then the highest priority, then the highest
// score, then the first place in the queue.
Group* FirstToGo(std::vector<Group>& groups) {
  Group* first = nullptr;
  for (Group& each : groups) {
    if (each.score == kNotThere) continue;
    if (first != nullptr && (each.priority < first->priority || first->starving)) break;
    const bool better = first == nullptr || each.score > first->score ||
                        (each.score == first->score && *each.first < *first->first);
    if (better) first = &each;
  }
  return first;
}

// Up to `most` possible starts of tasks of that priority, each with the GPUs that the task would
// get. The best scores come first.
std::vector<Pick> PossibleStarts(std::vector<Group>& groups, std::int64_t priority, int most,
                                 const GpuLinks& links) {
  std::vector<std::pair<double, Pick>> starts;
  for (Group& group : groups) {
    if (group.score == kNotThere || group.priority != priority) continue;
    if (group.need.gpus > 1) {
      starts.push_back({group.score, {&group, IndicesOf(BestGpus(group, links))}});
      continue;
    }
    for (std::size_t gpu = 0; gpu < group.scores.size(); ++gpu) {
      if (group.scores[gpu] != kNotThere) starts.push_back({group.scores[gpu], {&group, {gpu}}});
    }
  }
  std::ranges::stable_sort(starts, std::greater<>(), &std::pair<double, Pick>::first);
  std::vector<Pick> best;
  for (auto& [score, start] : starts) {
    if (best.size() == static_cast<std::size_t>(most)) break;
    best.push_back(std::move(start));
  }
  return best;
}

// The running tasks; empty if some run time is unknown.
std::optional<std::vector<FutureRun>> RunsNow(const State& state) {
  std::vector<FutureRun> runs;
  for (const auto& [id, gpus_of] : state.ledger.Tasks()) {
    const TaskRecord& task = state.tasks.at(id);
    const std::optional<double> left_s = LeftS(state, task);
    if (!left_s) return std::nullopt;
    FutureRun run{.left_s = *left_s};
    for (const GpuIndex gpu : gpus_of) {
      const std::span<const Resident> residents = state.ledger.ResidentsOf(gpu);
      const auto at = std::ranges::find(residents, id, &Resident::task) - residents.begin();
      const auto place = static_cast<std::size_t>(at);
      Profile profile = ProfileNow(state, task);
      if (residents[place].sm_active) profile.sm_active = residents[place].sm_active;
      run.load = NeighbourOf(state.config, task.request, profile);
      run.gpus.push_back(Number(gpu));
      run.promised_mib.push_back(PromiseOf(residents[place], PlateauFrom(state, state.now)));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// The first tasks of the queue. Empty if a run time is unknown or a task waits for the machine's
// cores or memory.
std::optional<std::vector<FutureTask>> LineAhead(const State& state) {
  std::vector<FutureTask> line;
  LineUp main = Line(state, LineKind::kWithGpus);
  while (line.size() < kLongestLine) {
    const std::optional<LineUp::Next> next = main.Pop();
    if (!next) break;
    const TaskRecord& task = state.tasks.at(next->task);
    const Need need = NeedNow(state, task);
    // The simulation does not model the machine's cores and memory, so no task may be waiting for
    // them.
    const std::optional<double> alone_s = LeftS(state, task);
    if (!alone_s || !HostTakes(state, task.id, need.host)) return std::nullopt;
    line.push_back({.need = need, .alone_s = *alone_s});
  }
  return line;
}

// The next start. Empty if no task starts now.
std::optional<Pick> PickOf(State& state, std::vector<Group>& groups,
                           const std::vector<GpuView>& views) {
  state.passes.waiting_pays = false;
  Group* const first = FirstToGo(groups);
  if (first == nullptr) return std::nullopt;
  Pick by_score{.group = first, .gpus = IndicesOf(BestGpus(*first, state.gpus.links))};
  // No look-ahead in fair order, because the user with the least usage goes first, even if another
  // start would give a higher total throughput. Nor with site rules, because they may depend on
  // other users' tasks, which the simulation does not model.
  if (state.config.lookahead == 0 || state.config.order == QueueOrder::kFair ||
      HasOwnRules(state.config))
    return by_score;
  const std::optional<std::vector<FutureRun>> runs = RunsNow(state);
  if (!runs) return by_score;
  const std::optional<std::vector<FutureTask>> line = LineAhead(state);
  if (!line) return by_score;
  const Future future(state.config, *state.mapper, views, *runs, *line);
  // If no task is running, none will end, so waiting would not free any GPU.
  double least_s = runs->empty() ? std::numeric_limits<double>::infinity() : future.CostOf({});
  state.passes.waiting_pays = std::isfinite(least_s);
  std::optional<Pick> best;
  for (Pick& start :
       PossibleStarts(groups, first->priority, state.config.lookahead, state.gpus.links)) {
    const auto at = std::ranges::find(*line, *start.group->first,
                                      [](const FutureTask& each) { return each.need.task; });
    if (at == line->end()) continue;
    const auto place = static_cast<std::size_t>(at - line->begin());
    const double cost_s = future.CostOf(FutureStart{place, start.gpus});
    if (cost_s >= least_s) continue;
    least_s = cost_s;
    best = std::move(start);
    state.passes.waiting_pays = false;
  }
  if (!best && !state.passes.waiting_pays) return by_score;
  return best;
}

// Groups the next `places` tasks of the queue, skipping tasks in `refused`.
void FindGroups(State& state, LineUp& line, std::size_t places, LineLook& found) {
  std::vector<Group>& groups = found.groups;
  groups.clear();
  const std::size_t most = std::min(state.queue.Main().size, places);
  groups.reserve(most);
  found.looked_at.Reserve(found.looked_at.size() + most);
  const std::size_t slots = std::bit_ceil(2 * most);
  found.slots.assign(slots, 0);
  for (; places > 0; --places) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    found.looked_at.Insert(next->task);
    if (state.passes.refused.Contains(next->task)) {
      found.passed_over.push_back(next->task);
      continue;
    }
    const TaskRecord& task = *next->record;
    Need need = NeedNow(state, task);
    NoteWhatItAwaits(state, task, need);
    need.nobody_behind = state.queue.Main().size == 1;
    const std::size_t hash = HashOf(need) ^ (next->line * kScatter);
    std::size_t slot = (hash * kScatter) >> 32 & (slots - 1);
    const auto is_same = [&](const Group& group) {
      return group.hash == hash && group.priority == next->priority && group.line == next->line &&
             group.starving == next->starving && AskTheSame(group.need, need);
    };
    while (found.slots[slot] != 0 && !is_same(groups[found.slots[slot] - 1]))
      slot = (slot + 1) & (slots - 1);
    if (found.slots[slot] != 0) {
      groups[found.slots[slot] - 1].behind.push_back(task.id);
      continue;
    }
    groups.push_back({.hash = hash,
                      .priority = next->priority,
                      .line = next->line,
                      .starving = next->starving,
                      .unplaceable = state.passes.unplaceable.Contains(task.id),
                      .need = std::move(need),
                      .first = task.id,
                      .limits = next->bounds});
    found.slots[slot] = static_cast<std::uint32_t>(groups.size());
  }
  for (Group& each : groups) std::ranges::reverse(each.behind);
  const auto place = [](const Group& each) { return std::pair(each.starving, each.priority); };
  // Sorted only if necessary, because groups are large objects and usually sorted already.
  if (!std::ranges::is_sorted(groups, std::greater<>(), place))
    std::ranges::stable_sort(groups, std::greater<>(), place);
}

void ScoreOn(const State& state, Group& group, const GpuView& view, std::size_t place) {
  const bool fits = FitOf(state.config, group.need, view, Part::kOther) == Fit::kFits;
  if (group.need.others_mib) {
    group.may_be_first.resize(group.scores.size());
    group.may_be_first[place] = FitOf(state.config, group.need, view) == Fit::kFits;
  }
  group.scores[place] = fits ? state.mapper->Score(group.need, view) : kNotThere;
}

bool IsLimited(const State& state, const Group& group) {
  return !group.limits.empty() &&
         Limits::Against(group.limits, WantsOf(state, group.need), state.now);
}

// Computes the group's score from its scores on each GPU.
void Rate(const State& state, Group& group, const LineUp& line) {
  group.score = kNotThere;
  if (group.limited || !HostTakes(state, *group.first, group.need.host)) return;
  group.score = ScoreOf(group, state.gpus.links) - kExcessCosts * line.Excess(group.line);
}

// opened: for each GPU, whether it might now take one of the tasks in Passes::unplaceable.
void ScoreFirst(const State& state, Group& group, const std::vector<GpuView>& views,
                const std::vector<bool>& opened, const LineUp& line) {
  for (std::size_t gpu = 0; gpu < views.size(); ++gpu) {
    if (!group.unplaceable || opened[gpu]) ScoreOn(state, group, views[gpu], gpu);
  }
  group.unplaceable = IsOnNoGpu(group);
  group.limited = IsLimited(state, group);
  Rate(state, group, line);
}

// Moves on to the group's next task after its first task has started.
void Advance(const State& state, Group& group) {
  group.score = kNotThere;
  group.first.reset();
  if (group.behind.empty()) return;
  group.first = group.behind.back();
  group.behind.pop_back();
  group.need = NeedNow(state, state.tasks.at(*group.first));
}

// Updates the scores that a start can change; all other scores remain valid.
void NoteStartOf(const State& state, const Group& started, const std::vector<Placement>& taken,
                 const std::vector<GpuView>& views, LineLook& look, const LineUp& line) {
  for (Group& each : look.groups) {
    if (&each == &started || !each.first) continue;
    // The group's share, or the free cores and memory, may have changed.
    bool changed = state.config.order == QueueOrder::kFair || each.need.host != HostNeed{};
    // The number of idle cores may have changed too, which affects every GPU.
    for (std::size_t gpu = 0; state.machine.idle_cpus && gpu < views.size(); ++gpu) {
      if (each.scores[gpu] != kNotThere) ScoreOn(state, each, views[gpu], gpu);
      changed = true;
    }
    for (const Placement& at : taken) {
      const std::size_t gpu = Number(at.gpu);
      if (each.scores[gpu] == kNotThere) continue;
      ScoreOn(state, each, views[gpu], gpu);
      changed = true;
    }
    if (Limits::CountTogether(each.limits, started.limits)) {
      each.limited = IsLimited(state, each);
      changed = true;
    }
    if (!changed) continue;
    each.unplaceable = IsOnNoGpu(each);
    Rate(state, each, line);
  }
}

// Computes new scores on the GPUs that were just taken, for groups that could not use them before.
// A GPU's new tasks may make it worthwhile for a group to join them. Returns whether any group can
// now use one of these GPUs.
bool AskAgainOn(const State& state, const std::set<std::size_t>& taken,
                const std::vector<GpuView>& views, LineLook& look, const LineUp& line) {
  bool any = false;
  for (Group& each : look.groups) {
    bool changed = false;
    for (const std::size_t gpu : taken) {
      if (!each.first || each.scores[gpu] != kNotThere) continue;
      ScoreOn(state, each, views[gpu], gpu);
      changed |= each.scores[gpu] != kNotThere;
    }
    if (!changed) continue;
    each.unplaceable = IsOnNoGpu(each);
    Rate(state, each, line);
    any = true;
  }
  return any;
}

// Returns the number of started tasks.
std::size_t StartBestOf(State& state, LineLook& look, LineUp& line, std::vector<GpuView>& views,
                        const std::vector<bool>& opened) {
  std::vector<Group>& groups = look.groups;
  look.scores.assign(groups.size() * views.size(), kNotThere);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].scores = std::span(look.scores).subspan(i * views.size(), views.size());
    ScoreFirst(state, groups[i], views, opened, line);
  }
  std::size_t started = 0;
  std::set<std::size_t> taken_now;
  while (true) {
    const std::optional<Pick> pick = PickOf(state, groups, views);
    if (!pick && AskAgainOn(state, std::exchange(taken_now, {}), views, look, line)) continue;
    if (!pick) return started;
    Group& group = *pick->group;
    TaskRecord& task = state.tasks.at(*group.first);
    if (state.heads.passed.task && *state.heads.passed.task != task.id) ++state.heads.overtakes;
    std::optional<Choice> choice;
    if (state.config.idle_first) choice = ChooseIdle(state, task, views);
    if (!choice) {
      std::vector<GpuView> best;
      for (const std::size_t gpu : pick->gpus) best.push_back(views[gpu]);
      const auto eligible =
          std::ranges::count_if(group.scores, [](double each) { return each != kNotThere; });
      choice =
          Chosen(state, task, best, static_cast<std::size_t>(eligible), state.mapper_entry->name);
    }
    line.Charge(group.line, state.WouldTake(task));
    Start(state, task, *std::move(choice));
    ++started;
    const std::vector<Placement>& taken = task.attempt->placement;
    Refresh(state, taken, views);
    Advance(state, group);
    if (group.first) ScoreFirst(state, group, views, opened, line);
    NoteStartOf(state, group, taken, views, look, line);
    for (const Placement& each : taken) taken_now.insert(Number(each.gpu));
  }
}

// Records which waiting tasks fit on no GPU, and whether any waiting task lacks idle cores. The
// tasks that just started may be using those cores.
void NoteWaiting(State& state, LineLook& look) {
  for (const Group& each : look.groups) {
    if (!each.first) continue;
    state.passes.lacks_cores |= LacksCores(state, each.need);
    if (!each.unplaceable) continue;
    look.unplaceable.Insert(*each.first);
    for (const TaskId task : each.behind) look.unplaceable.Insert(task);
  }
}

}  // namespace

void StartBestFirst(State& state, std::vector<GpuView>& views, const std::vector<bool>& opened,
                    PassLine& pass) {
  LineUp line = pass.Whole();
  LineUp passed_on = line;
  state.passes.memory.Clear();
  bool some_wait = false;  // some tasks that could start are still waiting
  const std::set<GpuIndex> taken_before = state.passes.taken_since;
  std::set<GpuIndex> checked;  // taken in the first round; the round's tasks were rechecked there
  bool first = true;
  // True if the next pass is certain to consider the same tasks as this one. Not certain in fair
  // order or under limits, where a start may bring other tasks to the front of the queue.
  const bool same_tasks =
      state.queue.Main().size <= static_cast<std::size_t>(state.config.backfill) ||
      (state.config.order == QueueOrder::kFifo && !state.limits.Concerns());
  // Each start allows tasks further back in the queue to be considered.
  for (std::size_t places = static_cast<std::size_t>(state.config.backfill); places > 0;) {
    FindGroups(state, passed_on, places, state.passes.memory);
    if (state.passes.memory.groups.empty()) break;
    places = StartBestOf(state, state.passes.memory, line, views, opened);
    if (std::exchange(first, false))
      checked = std::exchange(state.passes.taken_since, taken_before);
    some_wait |= state.passes.waiting_pays;
    NoteWaiting(state, state.passes.memory);
  }
  for (const TaskId task : state.passes.memory.passed_over) {
    if (state.passes.unplaceable.Contains(task)) state.passes.memory.unplaceable.Insert(task);
  }
  // If the next pass considers only the first round's tasks, it can skip the GPUs in `checked`,
  // because those tasks have already been rechecked there.
  if (!same_tasks || !state.passes.memory.passed_over.empty())
    state.passes.taken_since.merge(checked);
  // Look-ahead left tasks waiting even though they fit, so the next pass must consider all tasks
  // again.
  if (some_wait) state.passes.memory.looked_at.Clear();
  std::swap(state.passes.refused, state.passes.memory.looked_at);
  std::swap(state.passes.unplaceable, state.passes.memory.unplaceable);
}

}  // namespace carma::core
