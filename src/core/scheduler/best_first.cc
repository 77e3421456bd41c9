// The main queue under mappers that choose task and GPUs together: the best start first.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "core/forecast/future.h"
#include "core/policy/same_need.h"
#include "core/scheduler/scheduler_state.h"

namespace carma::core {
namespace {

// Maximum number of tasks for look-ahead, and the minimum remaining work of an overdue task as a
// share of its run time.
constexpr std::size_t kLongestLine = 48;
constexpr double kLeastLeft = 0.1;
// For mappers by added work: the cost of exceeding one's due share by the whole server.
constexpr double kExcessCosts = 1;
// Spreads close numbers.
constexpr std::size_t kScatter = 0x9e3779b97f4a7c15;

struct Best {
  double score = kNotThere;
  std::size_t gpu = 0;
};
// The GPUs that it takes; empty: too few may take it.
std::vector<Best> BestGpus(const Group& group, const GpuLinks& links) {
  std::vector<GpuLinks::Candidate> candidates;
  for (std::size_t i = 0; i < group.scores.size(); ++i) {
    if (group.scores[i] != kNotThere)
      candidates.push_back({GpuIndex{static_cast<std::uint32_t>(i)}, group.scores[i]});
  }
  std::vector<Best> best;
  for (const GpuIndex gpu : links.ChooseFor(group.need, std::move(candidates)))
    best.push_back({group.scores[Number(gpu)], Number(gpu)});
  return best;
}

// Without a list, because this runs for up to a thousand tasks at each start.
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

// The group with the highest priority, then highest score, then first in the queue.
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

// Pairs of task and GPU (or all GPUs if it needs several) of that priority: the best scores first,
// at most `most`.
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

}  // namespace

// Empty: some run time is unknown.
std::optional<std::vector<FutureRun>> Scheduler::State::RunsNow() const {
  std::vector<FutureRun> runs;
  for (const auto& [id, gpus_of] : ledger.Tasks()) {
    const TaskRecord& task = tasks.at(id);
    if (!task.profile->alone) return std::nullopt;
    const double alone_s = base::Seconds(*task.profile->alone);
    FutureRun run{.left_s = std::max(alone_s - DoneS(id), kLeastLeft * alone_s)};
    for (const GpuIndex gpu : gpus_of) {
      const std::span<const Resident> residents = ledger.ResidentsOf(gpu);
      const auto at = std::ranges::find(residents, id, &Resident::task) - residents.begin();
      const auto place = static_cast<std::size_t>(at);
      Profile profile = ProfileNow(task);
      if (residents[place].sm_active) profile.sm_active = residents[place].sm_active;
      run.load = NeighbourOf(config, task.request, profile);
      run.gpus.push_back(Number(gpu));
      run.promised_mib.push_back(PromiseOf(residents[place], PlateauFrom(now)));
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// The first tasks of the queue; empty: a run time is unknown, or one waits for cores or memory of
// the machine.
std::optional<std::vector<FutureTask>> Scheduler::State::LineAhead() const {
  std::vector<FutureTask> line;
  LineUp main = MainLine();
  while (line.size() < kLongestLine) {
    const std::optional<LineUp::Next> next = main.Pop();
    if (!next) break;
    const TaskRecord& task = tasks.at(next->task);
    const Need need = NeedNow(task);
    // The simulation does not model the machine's cores and memory.
    if (!task.profile->alone || !HostTakes(task.id, need.host)) return std::nullopt;
    line.push_back({.need = need, .alone_s = base::Seconds(*task.profile->alone)});
  }
  return line;
}

std::optional<Pick> Scheduler::State::PickOf(std::vector<Group>& groups,
                                             const std::vector<GpuView>& views) {
  waiting_pays = false;
  Group* const first = FirstToGo(groups);
  if (first == nullptr) return std::nullopt;
  Pick by_score{.group = first, .gpus = IndicesOf(BestGpus(*first, links))};
  // In fair order a user with the least usage must not wait for the sake of the total. Site rules
  // about other users' tasks are not simulated.
  if (config.lookahead == 0 || config.order == QueueOrder::kFair || HasOwnRules(config))
    return by_score;
  const std::optional<std::vector<FutureRun>> runs = RunsNow();
  if (!runs) return by_score;
  const std::optional<std::vector<FutureTask>> line = LineAhead();
  if (!line) return by_score;
  const Future future(config, *mapper, views, *runs, *line);
  // Without running tasks no task would end, so waiting is no option.
  double least_s = runs->empty() ? std::numeric_limits<double>::infinity() : future.CostOf({});
  waiting_pays = std::isfinite(least_s);
  std::optional<Pick> best;
  for (Pick& start : PossibleStarts(groups, first->priority, config.lookahead, links)) {
    const auto at = std::ranges::find(*line, *start.group->first,
                                      [](const FutureTask& each) { return each.need.task; });
    if (at == line->end()) continue;
    const auto place = static_cast<std::size_t>(at - line->begin());
    const double cost_s = future.CostOf(FutureStart{place, start.gpus});
    if (cost_s >= least_s) continue;
    least_s = cost_s;
    best = std::move(start);
    waiting_pays = false;
  }
  if (!best && !waiting_pays) return by_score;
  return best;
}

void Scheduler::State::FindGroups(LineUp& line, std::size_t places, LineLook& found) const {
  std::vector<Group>& groups = found.groups;
  groups.clear();
  const std::size_t most = std::min(queue.Main().size, places);
  groups.reserve(most);
  found.looked_at.Reserve(found.looked_at.size() + most);
  const std::size_t slots = std::bit_ceil(2 * most);
  found.slots.assign(slots, 0);
  for (; places > 0; --places) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    found.looked_at.Insert(next->task);
    if (refused.Contains(next->task)) {
      found.passed_over.push_back(next->task);
      continue;
    }
    const TaskRecord& task = *next->record;
    Need need = NeedNow(task);
    if (const std::optional<Time> eases = EasesAt(task))
      found.eases = std::min(found.eases.value_or(*eases), *eases);
    need.nobody_behind = queue.Main().size == 1;
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
                      .unplaceable = unplaceable.Contains(task.id),
                      .need = std::move(need),
                      .first = task.id,
                      .limits = next->bounds});
    found.slots[slot] = static_cast<std::uint32_t>(groups.size());
  }
  for (Group& each : groups) std::ranges::reverse(each.behind);
  const auto place = [](const Group& each) { return std::pair(each.starving, each.priority); };
  // They are large but usually sorted already.
  if (!std::ranges::is_sorted(groups, std::greater<>(), place))
    std::ranges::stable_sort(groups, std::greater<>(), place);
}

void Scheduler::State::StartBestFirst(std::vector<GpuView>& views,
                                      const std::vector<bool>& opened) {
  LineUp line = MainLine();
  LineUp passed_on = line;
  look_at_line.Clear();
  bool some_wait = false;  // who could start
  // A start lets tasks further back in the queue be considered.
  for (std::size_t places = static_cast<std::size_t>(config.backfill); places > 0;) {
    FindGroups(passed_on, places, look_at_line);
    if (look_at_line.groups.empty()) break;
    places = StartBestOf(look_at_line, line, views, opened);
    some_wait |= waiting_pays;
    NoteOnNoGpu(look_at_line);
  }
  for (const TaskId task : look_at_line.passed_over) {
    if (unplaceable.Contains(task)) look_at_line.unplaceable.Insert(task);
  }
  if (const std::optional<Time>& eases = look_at_line.eases)
    next_easing = std::min(next_easing.value_or(*eases), *eases);
  // They may be considered again.
  if (some_wait) look_at_line.looked_at.Clear();
  std::swap(refused, look_at_line.looked_at);
  std::swap(unplaceable, look_at_line.unplaceable);
}

void Scheduler::State::ScoreOn(Group& group, const GpuView& view, std::size_t place) const {
  const bool fits = FitOf(config, group.need, view) == Fit::kFits;
  group.scores[place] = fits ? mapper->Score(group.need, view) : kNotThere;
}

bool Scheduler::State::IsLimited(const Group& group) const {
  return !group.limits.empty() && Limits::Against(group.limits, WantsOf(group.need), now);
}

void Scheduler::State::Rate(Group& group, const LineUp& line) const {
  group.score = kNotThere;
  if (group.limited || !HostTakes(*group.first, group.need.host)) return;
  group.score = ScoreOf(group, links) - kExcessCosts * line.Excess(group.line);
}

void Scheduler::State::ScoreFirst(Group& group, const std::vector<GpuView>& views,
                                  const std::vector<bool>& opened, const LineUp& line) const {
  for (std::size_t gpu = 0; gpu < views.size(); ++gpu) {
    if (!group.unplaceable || opened[gpu]) ScoreOn(group, views[gpu], gpu);
  }
  group.unplaceable = IsOnNoGpu(group);
  group.limited = IsLimited(group);
  Rate(group, line);
}

void Scheduler::State::Advance(Group& group) const {
  group.score = kNotThere;
  group.first.reset();
  if (group.behind.empty()) return;
  group.first = group.behind.back();
  group.behind.pop_back();
  group.need = NeedNow(tasks.at(*group.first));
}

// The GPUs taken, and limits, can only have become tighter, so only these are checked again.
void Scheduler::State::NoteStartOf(const Group& started, const std::vector<Placement>& taken,
                                   const std::vector<GpuView>& views, LineLook& look,
                                   const LineUp& line) const {
  for (Group& each : look.groups) {
    if (&each == &started || !each.first) continue;
    // Its share, or what is left of the machine, may have changed.
    bool changed = config.order == QueueOrder::kFair || each.need.host != HostNeed{};
    // So may the number of idle cores, which matters on every GPU.
    for (std::size_t gpu = 0; idle_cpus && gpu < views.size(); ++gpu) {
      if (each.scores[gpu] != kNotThere) ScoreOn(each, views[gpu], gpu);
      changed = true;
    }
    for (const Placement& at : taken) {
      const std::size_t gpu = Number(at.gpu);
      if (each.scores[gpu] == kNotThere) continue;
      ScoreOn(each, views[gpu], gpu);
      changed = true;
    }
    if (Limits::CountTogether(each.limits, started.limits)) {
      each.limited = IsLimited(each);
      changed = true;
    }
    if (!changed) continue;
    each.unplaceable = IsOnNoGpu(each);
    Rate(each, line);
  }
}

std::size_t Scheduler::State::StartBestOf(LineLook& look, LineUp& line, std::vector<GpuView>& views,
                                          const std::vector<bool>& opened) {
  std::vector<Group>& groups = look.groups;
  look.scores.assign(groups.size() * views.size(), kNotThere);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].scores = std::span(look.scores).subspan(i * views.size(), views.size());
    ScoreFirst(groups[i], views, opened, line);
  }
  std::size_t started = 0;
  while (const std::optional<Pick> pick = PickOf(groups, views)) {
    Group& group = *pick->group;
    TaskRecord& task = tasks.at(*group.first);
    if (passed.task && *passed.task != task.id) ++passed.times;
    std::optional<Choice> choice;
    if (config.idle_first) choice = ChooseIdle(task, views);
    if (!choice) {
      std::vector<GpuView> best;
      for (const std::size_t gpu : pick->gpus) best.push_back(views[gpu]);
      const auto eligible =
          std::ranges::count_if(group.scores, [](double each) { return each != kNotThere; });
      choice = Chosen(task, best, static_cast<std::size_t>(eligible), mapper_entry->name);
    }
    line.Charge(group.line, WouldTake(task));
    Start(task, *std::move(choice));
    ++started;
    const std::vector<Placement>& taken = task.attempt->placement;
    Refresh(taken, views);
    for (const Placement& each : taken) taken_since.insert(each.gpu);
    Advance(group);
    if (group.first) ScoreFirst(group, views, opened, line);
    NoteStartOf(group, taken, views, look, line);
  }
  return started;
}

void Scheduler::State::NoteOnNoGpu(LineLook& look) {
  for (const Group& each : look.groups) {
    if (!each.unplaceable || !each.first) continue;
    look.unplaceable.Insert(*each.first);
    for (const TaskId task : each.behind) look.unplaceable.Insert(task);
  }
}

}  // namespace carma::core
