// Who of the main line goes next.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

#include "core/future.h"
#include "core/scheduler_state.h"

namespace carma::core {
namespace {

// Tasks of the line that a look ahead goes through, and what a task has left at least that should
// have ended already, as a share of its run time.
constexpr std::size_t kLongestLine = 48;
constexpr double kLeastLeft = 0.1;
// Where GPUs are chosen by the work that is added: what it costs to have all of a server more than
// is due.
constexpr double kExcessCosts = 1;

bool MayHaveTheSame(const Need& a, const Need& b) {
  if (a.choice == b.choice) return true;
  return a.choice && b.choice && *a.choice == *b.choice;
}

// The same answer for both tasks on any GPU; how long they have waited only decides between them.
bool AskTheSame(const Need& a, const Need& b) {
  return a.memory_mib == b.memory_mib && a.retry_free_mib == b.retry_free_mib &&
         a.idle_gpu == b.idle_gpu && a.exclusive == b.exclusive && a.gpus == b.gpus &&
         a.sm_share == b.sm_share && a.host == b.host && a.load == b.load && a.alone == b.alone &&
         a.uid == b.uid && a.runs_at_most == b.runs_at_most && a.own_bookings == b.own_bookings &&
         a.linked == b.linked && MayHaveTheSame(a, b);
}

// Equal for needs that ask for the same; mostly another one for others.
std::size_t HashOf(const Need& need) {
  std::size_t hash = std::hash<std::int64_t>()(need.memory_mib.value_or(-1));
  const auto mix = [&hash](std::size_t value) {
    hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  };
  mix(std::hash<std::int64_t>()(need.retry_free_mib));
  mix(static_cast<std::size_t>(need.gpus));
  mix(std::hash<double>()(need.load.load.sm_active));
  mix(std::hash<double>()(need.load.load.sensitivity));
  mix(std::hash<double>()(need.load.load.pressure));
  mix(need.uid);
  mix(static_cast<std::size_t>(need.host.cpus));
  mix(std::hash<std::int64_t>()(need.host.memory_mib));
  mix(std::hash<std::int64_t>()(need.alone.value_or(Duration{0}).count()));
  return hash;
}

struct Best {
  double score = kNotThere;
  std::size_t gpu = 0;
};
// Those that it takes; empty: too few GPUs may take it.
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

// A thousand tasks may be in line: what is asked of all of them at each start makes no list.
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

// The highest priority that has any, there the highest score, there the first in line.
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

// Each task and GPU, or all its GPUs where it wants several, of that priority: the best scores
// first, at most so many.
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

LineUp Scheduler::State::Line(LineKind kind,
                              const std::optional<LineUp::Newcomer>& newcomer) const {
  const LineUp::Rules by{
      .order = config.order, .patience = config.fair.patience, .limited = limits.Concerns()};
  return LineUp(queue.Main(kind), shares, by, now, *this, newcomer);
}

const TaskRecord* Scheduler::State::Find(TaskId id) const {
  const auto at = tasks.find(id);
  return at == tasks.end() ? nullptr : &at->second;
}

double Scheduler::State::WouldTake(const TaskRecord& task) const {
  if (task.request->gpus == 0) {
    const HostNeed need = HostNeedOf(config, task.request);
    return host.PartOf(need.cpus, need.memory_mib);
  }
  const std::int64_t known_mib = task.estimate ? task.estimate->peak_mib : 0;
  const std::int64_t wanted_mib = std::max(known_mib, task.retry_free_mib.value_or(0));
  const std::int64_t largest_mib = gpu_sizes_mib.empty() ? 0 : std::ranges::max(gpu_sizes_mib);
  return RateOf(task, wanted_mib, largest_mib, KeepsGpusAlone(task));
}

std::optional<LimitHit> Scheduler::State::LimitOn(const TaskRecord& task, Time at) const {
  if (!limits.Concerns()) return std::nullopt;
  if (limits.CountMemory()) return limits.AgainstStart(task, WantsOf(NeedNow(task)), at);
  return limits.AgainstStart(
      task, {.gpus = task.request->gpus, .host = HostNeedOf(config, task.request)}, at);
}

Limits::Wants Scheduler::State::WantsOf(const Need& need) const {
  const std::int64_t largest_mib = gpu_sizes_mib.empty() ? 0 : std::ranges::max(gpu_sizes_mib);
  const std::int64_t claim_mib = std::max(need.memory_mib.value_or(0), need.retry_free_mib);
  return {.gpus = need.gpus, .promised_mib = std::min(claim_mib, largest_mib), .host = need.host};
}

bool Scheduler::State::IsLimited(const TaskRecord& task) const {
  return LimitOn(task, now).has_value();
}

void Scheduler::State::NoteHead() {
  const std::optional<LineUp::Next> first = MainLine().Pop();
  if (!first) {
    passed = {};
  } else if (passed.task != first->task) {
    passed = {.task = first->task, .since = now};
  }
}

FruitlessLook Scheduler::State::LookNow(const std::vector<GpuView>& views) const {
  FruitlessLook look{.line = queue.changes(),
                     .host = host.changes(),
                     .lessons = lessons.changes(),
                     .limits = limits.changes(),
                     .booked = bookings.changes(),
                     .shares = shares.changes()};
  look.gpus.reserve(views.size());
  for (const GpuView& view : views)
    look.gpus.push_back(OpennessOf(config, view, gpus[Number(view.index)].crowd));
  return look;
}

bool Scheduler::State::OpensNothingSince(const FruitlessLook& look) const {
  return look.host == fruitless->host && look.lessons == fruitless->lessons &&
         look.limits == fruitless->limits && look.booked == fruitless->booked &&
         std::ranges::equal(fruitless->gpus, look.gpus, OpensNothing);
}

bool Scheduler::State::SameLineSince(const FruitlessLook& look) const {
  if (look.line != fruitless->line) return false;
  const bool all = queue.Main().size <= static_cast<std::size_t>(config.backfill);
  if (config.order == QueueOrder::kFifo || all) return true;
  return look.shares == fruitless->shares &&
         (!fruitless->order_until || now < *fruitless->order_until);
}

void Scheduler::State::StartInOrder(std::vector<GpuView>& views) {
  LineUp line = MainLine();
  std::unordered_multimap<std::size_t, Need> wanted;  // in vain: what follows takes GPUs
  std::unordered_set<TaskId> looked_at;
  int waiting = 0;
  while (waiting < config.backfill) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    const TaskId id = next->task;
    if (!refused.contains(id)) {
      const Need need = NeedNow(*next->record);
      const std::size_t hash = HashOf(need);
      const auto [from, to] = wanted.equal_range(hash);
      const bool asked =
          std::any_of(from, to, [&](const auto& each) { return AskTheSame(each.second, need); });
      if (!asked && TryStart(id, views)) {
        if (waiting > 0) ++passed.times;
        continue;
      }
      if (!asked) wanted.emplace(hash, need);
    }
    looked_at.insert(id);
    ++waiting;
  }
  refused = std::move(looked_at);
}

// Empty: the run time of somebody is not known.
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

// The first tasks of the line; empty: the run time of one of them is not known, or the machine
// itself keeps it waiting.
std::optional<std::vector<FutureTask>> Scheduler::State::LineAhead() const {
  std::vector<FutureTask> line;
  LineUp main = MainLine();
  while (line.size() < kLongestLine) {
    const std::optional<LineUp::Next> next = main.Pop();
    if (!next) break;
    const TaskRecord& task = tasks.at(next->task);
    const Need need = NeedNow(task);
    // The machine's own cores and memory are not played on.
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
  // Who has least is not asked to wait until all end earliest.
  // What the server's own rules ask of other users' tasks is not played on.
  if (config.lookahead == 0 || config.order == QueueOrder::kFair || HasOwnRules(config))
    return by_score;
  const std::optional<std::vector<FutureRun>> runs = RunsNow();
  if (!runs) return by_score;
  const std::optional<std::vector<FutureTask>> line = LineAhead();
  if (!line) return by_score;
  const Future future(config, *mapper, views, *runs, *line);
  // Nothing ends while nothing runs.
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

std::vector<Group> Scheduler::State::GroupsInLine(LineUp& line,
                                                  std::unordered_set<TaskId>& looked_at) const {
  std::vector<Group> groups;
  std::unordered_multimap<std::size_t, std::size_t> by_hash;  // for look-up only
  const std::size_t most = std::min(queue.Main().size, static_cast<std::size_t>(config.backfill));
  groups.reserve(most);
  by_hash.reserve(most);
  looked_at.reserve(most);
  for (int looks = 0; looks < config.backfill; ++looks) {
    const std::optional<LineUp::Next> next = line.Pop();
    if (!next) break;
    looked_at.insert(next->task);
    if (refused.contains(next->task)) continue;
    const TaskRecord& task = *next->record;
    Need need = NeedNow(task);
    const std::size_t hash = HashOf(need) ^ (next->line * 0x9e3779b97f4a7c15);
    const auto [from, to] = by_hash.equal_range(hash);
    const auto same = std::find_if(from, to, [&](const auto& each) {
      const Group& group = groups[each.second];
      return group.priority == next->priority && group.line == next->line &&
             group.starving == next->starving && AskTheSame(group.need, need);
    });
    if (same != to) {
      groups[same->second].behind.push_back(task.id);
      continue;
    }
    by_hash.emplace(hash, groups.size());
    groups.push_back({.priority = next->priority,
                      .line = next->line,
                      .starving = next->starving,
                      .need = std::move(need),
                      .first = task.id,
                      .limits = limits.Bound(task.request)});
  }
  for (Group& each : groups) std::ranges::reverse(each.behind);
  const auto place = [](const Group& each) { return std::pair(each.starving, each.priority); };
  // Large as they are they mostly stand right already.
  if (!std::ranges::is_sorted(groups, std::greater<>(), place))
    std::ranges::stable_sort(groups, std::greater<>(), place);
  return groups;
}

void Scheduler::State::StartBestFirst(std::vector<GpuView>& views) {
  // Who starts makes room in the line for those whose place is not looked at yet.
  while (StartBestOfLine(views)) {
  }
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
                                  const LineUp& line) const {
  for (std::size_t gpu = 0; gpu < views.size(); ++gpu) ScoreOn(group, views[gpu], gpu);
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

bool Scheduler::State::StartBestOfLine(std::vector<GpuView>& views) {
  const std::size_t in_line = queue.Main().size;
  LineUp line = MainLine();
  LineUp passed_on = line;
  std::unordered_set<TaskId> looked_at;
  std::vector<Group> groups = GroupsInLine(passed_on, looked_at);
  std::vector<double> scores(groups.size() * views.size(), kNotThere);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].scores = std::span(scores).subspan(i * views.size(), views.size());
    ScoreFirst(groups[i], views, line);
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
    for (const Placement& each : taken) views[Number(each.gpu)] = ViewOf(each.gpu, now);
    Advance(group);
    if (group.first) ScoreFirst(group, views, line);
    for (Group& each : groups) {
      if (&each == &group || !each.first) continue;
      for (const Placement& at : taken) {
        const std::size_t gpu = Number(at.gpu);
        if (each.scores[gpu] != kNotThere) ScoreOn(each, views[gpu], gpu);
      }
      if (Limits::CountTogether(each.limits, group.limits)) each.limited = IsLimited(each);
      Rate(each, line);
    }
  }
  // Who could start and is to wait may be looked at again.
  if (waiting_pays) looked_at.clear();
  refused = std::move(looked_at);
  return started > 0 && in_line > static_cast<std::size_t>(config.backfill);
}

}  // namespace carma::core
