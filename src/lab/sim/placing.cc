// Places the tasks of the queue that feeds several servers.
#include "lab/sim/placing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lab/sim/agenda.h"

namespace carma::sim {
namespace {

// Slurm's bf_max_job_test
constexpr std::size_t kBackfillLooks = 500;

// If more servers than this have changed, every server is asked again.
constexpr std::size_t kMostTouched = 4096;

}  // namespace

// ---- Placing::kQueue ----

IdleFirst::IdleFirst(const Servers& servers, const Machines& machines, const Jobs& jobs,
                     Candidates& candidates)
    : servers_(servers),
      machines_(machines),
      jobs_(jobs),
      candidates_(candidates),
      key_of_(servers.size()) {
  for (std::uint32_t i = 0; i < servers.size(); ++i) Changed(i);
}

void IdleFirst::Add(std::span<const JobIndex> jobs) {
  queue_.insert(queue_.end(), jobs.begin(), jobs.end());
}

void IdleFirst::Changed(std::uint32_t index) {
  const Server& server = servers_[index];
  std::optional<Key> key;
  if (server.queue.waiting == server.queue.recovering)
    key = Key{-machines_.IdleGpus(index), server.launched, index};
  std::optional<Key>& old = key_of_[index];
  if (key == old) return;
  if (old) open_.erase(*old);
  if (key) open_.insert(*key);
  old = key;
}

std::optional<IdleFirst::Placed> IdleFirst::Next() {
  if (queue_.empty() || open_.empty()) return std::nullopt;
  const JobIndex head = queue_.front();
  const std::shared_ptr<Alike> alike = candidates_.AlikeOf(jobs_[head]);
  const auto best = std::ranges::find_if(
      open_, [&](const Key& key) { return candidates_.CouldTake(*alike, std::get<2>(key)); });
  // The task waits if a server that is busy now could take it when idle.
  if (best == open_.end() && candidates_.AnyCould(*alike)) return std::nullopt;
  queue_.pop_front();
  // A task that no server can take goes to the first open one, which will reject it.
  return Placed{head, std::get<2>(best == open_.end() ? *open_.begin() : *best)};
}

// ---- Placing::kSlurm, including its backfill ----

SlurmPlacing::SlurmPlacing(const RunOptions& options, const Layout& layout, const LinesAbove& lines,
                           const Jobs& jobs, const Candidates& candidates)
    : options_(options),
      layout_(layout),
      lines_(lines),
      jobs_(jobs),
      candidates_(candidates),
      counts_(options.above.gres) {
  for (std::uint32_t i = 0; i < layout.servers().size(); ++i) {
    std::vector<std::int64_t> usable_mib;
    for (const std::uint32_t gpu : layout.GpusOf(i)) usable_mib.push_back(layout.UsableMib(gpu));
    counts_.AddNode(usable_mib);
  }
}

std::vector<std::uint32_t> SlurmPlacing::Book(const Job& job, std::uint32_t server,
                                              base::Time now) {
  return counts_.Book(server, core::Number(job.id), job.above.alike->asked, now + LimitOf(job));
}

void SlurmPlacing::Release(const Job& job) {
  for (const std::uint32_t each : job.Servers()) {
    counts_.Release(each, core::Number(job.id));
    freed_.push_back(each);
  }
}

base::Duration SlurmPlacing::LimitOf(const Job& job) const {
  const double s = options_.above.time_limit * job.work.solo_s();
  return options_.memory.load + base::Duration(std::llround(s * 1000));
}

bool SlurmPlacing::MayPass(const Kept& kept, std::uint32_t node, const Job& job,
                           base::Time now) const {
  if (std::ranges::find(kept.nodes, node) == kept.nodes.end()) return true;
  return now + LimitOf(job) <= kept.from ||
         counts_.FitsBeside(node, kept.asked, kept.from, job.above.alike->asked);
}

std::vector<std::uint32_t> SlurmPlacing::NodesFor(const Job& job, base::Time now,
                                                  const Kept* kept) const {
  const auto takes = [&](std::uint32_t node) {
    return counts_.Fits(node, job.above.alike->asked) && (!kept || MayPass(*kept, node, job, now));
  };
  if (IsGang(layout_, job)) return candidates_.WholeServersFor(job, takes);
  using Rank = std::pair<int, std::uint32_t>;
  std::optional<Rank> best;
  const auto look = [&](std::uint32_t node) {
    const Rank rank{options_.above.spread ? counts_.GpusBooked(node) : 0, node};
    if ((best && *best < rank) || job.above.shunned == node) return;
    if (takes(node) && candidates_.CouldTake(*job.above.alike, node)) best = rank;
  };
  if (kept == nullptr && blocked_ == core::Number(job.id)) {
    std::ranges::for_each(freed_, look);
  } else {
    for (std::uint32_t i = 0; i < layout_.servers().size(); ++i) look(i);
  }
  if (!best) return {};
  return {best->second};
}

void SlurmPlacing::PlaceInOrder(base::Time now, const PlaceTask& place) {
  while (!lines_.empty()) {
    const JobIndex head = lines_.First(1, now).front().job;
    const std::vector<std::uint32_t> nodes = NodesFor(jobs_[head], now, nullptr);
    freed_.clear();  // freed_ applies only to the blocked task
    blocked_.reset();
    if (nodes.empty()) {
      blocked_ = core::Number(jobs_[head].id);
      return;
    }
    place(head, nodes);
  }
}

std::optional<SlurmPlacing::Kept> SlurmPlacing::KeptFor(const Job& job, base::Time now) const {
  const CountAsked& asked = job.above.alike->asked;
  std::vector<std::pair<base::Time, std::uint32_t>> froms;
  for (std::uint32_t i = 0; i < layout_.servers().size(); ++i) {
    if (job.above.shunned == i || !candidates_.CouldTake(*job.above.alike, i)) continue;
    if (const auto from = counts_.FitsFrom(i, asked, now)) froms.emplace_back(*from, i);
  }
  std::ranges::sort(froms);
  Kept kept{.asked = asked};
  if (!IsGang(layout_, job)) {
    if (froms.empty()) return std::nullopt;
    kept.from = froms.front().first;
    kept.nodes = {froms.front().second};
    return kept;
  }
  const auto is_by = [&](base::Time when) {
    return [&froms, when](std::uint32_t node) {
      return std::ranges::any_of(
          froms, [&](const auto& each) { return each.second == node && each.first <= when; });
    };
  };
  // The earliest time at which enough servers are empty.
  const auto enough = std::ranges::find_if(froms, [&](const auto& each) {
    kept.nodes = candidates_.WholeServersFor(job, is_by(each.first));
    return !kept.nodes.empty();
  });
  if (enough == froms.end()) return std::nullopt;
  kept.from = enough->first;
  return kept;
}

void SlurmPlacing::Backfill(base::Time now, const PlaceTask& place) {
  PlaceInOrder(now, place);
  std::optional<Kept> kept;
  for (const LinesAbove::Waiting& each : lines_.First(kBackfillLooks, now)) {
    const Job& job = jobs_[each.job];
    if (!kept) {  // no reservation yet, so this is the first task, which has just been checked
      kept = KeptFor(job, now);
      if (!kept) return;
      continue;
    }
    const std::vector<std::uint32_t> nodes = NodesFor(job, now, &*kept);
    if (!nodes.empty()) place(each.job, nodes);
  }
}

// ---- Placing::kAsked ----

AskedPlacing::AskedPlacing(const RunOptions& options, const Layout& layout, const Servers& servers,
                           const LinesAbove& lines, const Jobs& jobs, const Candidates& candidates)
    : options_(options),
      layout_(layout),
      servers_(servers),
      lines_(lines),
      jobs_(jobs),
      candidates_(candidates),
      seen_(layout.servers().size()),
      reported_(kDaemonsStart),
      touched_(layout.servers().size()) {
  std::iota(touched_.begin(), touched_.end(), 0u);
  const core::PolicyConfig& policy = servers.front().core.scheduler().config();
  mapper_ = core::FindMapper(policy.mapper)->make(policy);
}

void AskedPlacing::Placed(const Job& job) {
  if (kept_for_ == core::Number(job.id)) kept_for_.reset();
}

bool AskedPlacing::IsKeptFrom(const Job& job, std::uint32_t node) const {
  return kept_for_ && *kept_for_ != core::Number(job.id) && std::ranges::count(kept_, node) > 0;
}

// Once a task has waited for pass_limit while others started ahead of it, reserves the servers that
// it needs, preferring those with the fewest tasks. A reserved server accepts no other tasks until
// this task has started.
void AskedPlacing::KeepServers(std::span<const LinesAbove::Waiting> looked_at, base::Time now) {
  if (kept_for_ || !options_.policy.pass_limit || looked_at.size() < 2) return;
  const auto since = [this](const LinesAbove::Waiting& each) {
    return jobs_[each.job].above.lined_up;
  };
  const LinesAbove::Waiting first = *std::ranges::min_element(looked_at, {}, since);
  if (now - since(first) < *options_.policy.pass_limit) return;
  const Job& job = jobs_[first.job];
  std::vector<std::pair<int, std::uint32_t>> by_tasks;
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    if (job.above.shunned != i && candidates_.CouldTake(*job.above.alike, i))
      by_tasks.emplace_back(servers_[i].launched, i);
  }
  std::ranges::sort(by_tasks);
  if (by_tasks.empty()) return;
  kept_for_ = first.number;
  kept_ = {by_tasks.front().second};
  if (!IsGang(layout_, job)) return;
  std::size_t looks = 0;
  do {
    ++looks;
    kept_ = candidates_.WholeServersFor(job, [&](std::uint32_t node) {
      return std::ranges::any_of(std::span(by_tasks).first(looks),
                                 [node](const auto& each) { return each.second == node; });
    });
  } while (kept_.empty() && looks < by_tasks.size());
}

std::optional<double> AskedPlacing::Ask(Alike& alike, std::uint32_t index, base::Time now) {
  const Server& node = servers_[index];
  if (node.whole || node.queue.waiting > node.queue.recovering ||
      !candidates_.CouldTake(alike, index))
    return {};
  const core::Scheduler& scheduler = node.core.scheduler();
  if (options_.host.promised &&
      scheduler.HostFor(alike.request, now).verdict.fit != core::Fit::kFits)
    return {};
  const std::uint32_t kind = layout_.servers()[index].kind;
  if (kind >= alike.needs.size()) alike.needs.resize(kind + 1);
  std::optional<core::Need>& need = alike.needs[kind];
  if (!need || !options_.reservations.empty()) {  // reservations change over time
    need = scheduler.NeedOfNew(alike.request, alike.estimate);
    need->load = core::NeighbourOf(scheduler.config(), alike.request, alike.profile);
    need->alone = alike.profile.alone;
  }
  Seen& seen = seen_[index];
  if (seen.told != node.told || seen.views.empty()) {
    seen.views = scheduler.Gpus(now);
    seen.told = node.told;
  }
  std::vector<double> scores;
  for (const core::GpuView& gpu : seen.views) {
    if (core::FitOf(scheduler.config(), *need, gpu) == core::Fit::kFits)
      scores.push_back(mapper_->Score(*need, gpu));
  }
  const auto wanted = static_cast<std::size_t>(alike.request.gpus);
  if (scores.size() < wanted) return {};
  std::ranges::sort(scores, std::greater());
  double sum = 0;
  for (std::size_t i = 0; i < wanted; ++i) sum += scores[i];
  return sum / static_cast<double>(wanted);
}

const std::optional<double>& AskedPlacing::AnswerOf(Alike& alike, std::uint32_t index,
                                                    base::Time now) {
  if (alike.answers.empty()) alike.answers.resize(servers_.size());
  Alike::Answer& answer = alike.answers[index];
  if (answer.told != servers_[index].told) {
    answer.score = Ask(alike, index, now);
    answer.told = servers_[index].told;
  }
  return answer.score;
}

std::vector<std::uint32_t> AskedPlacing::NodesFor(const Job& job, base::Time now) {
  if (IsGang(layout_, job)) {
    return candidates_.WholeServersFor(job, [&](std::uint32_t node) {
      const Server& server = servers_[node];
      return !server.whole && server.launched == 0 && server.queue.waiting == 0 &&
             !IsKeptFrom(job, node);
    });
  }
  Alike& alike = *job.above.alike;
  if (alike.none_epoch == epoch_) {
    const std::span<const std::uint32_t> since = std::span(touched_).subspan(alike.none_touched);
    const bool none = std::ranges::none_of(
        since, [&](std::uint32_t node) { return AnswerOf(alike, node, now).has_value(); });
    alike.none_touched = touched_.size();
    if (none) return {};
    alike.none_epoch = 0;
  }
  std::optional<std::uint32_t> best;
  bool somebody = false;
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    const std::optional<double>& answer = AnswerOf(alike, i, now);
    if (!answer) continue;
    somebody = true;
    if (job.above.shunned == i || IsKeptFrom(job, i)) continue;
    if (!best || *answer > *AnswerOf(alike, *best, now)) best = i;
  }
  if (best) return {*best};
  if (!somebody) {
    alike.none_epoch = epoch_;
    alike.none_touched = touched_.size();
  }
  return {};
}

void AskedPlacing::Place(base::Time now, const PlaceTask& place) {
  if (touched_.size() > kMostTouched) {
    touched_.clear();
    ++epoch_;
  }
  const auto looks = static_cast<std::size_t>(options_.policy.backfill);
  for (bool placed = true; placed && !lines_.empty();) {
    placed = false;
    const std::vector<LinesAbove::Waiting> first = lines_.First(looks, now);
    KeepServers(first, now);
    for (const LinesAbove::Waiting& each : first) {
      const std::vector<std::uint32_t> nodes = NodesFor(jobs_[each.job], now);
      if (nodes.empty()) continue;
      place(each.job, nodes);
      placed = true;
      break;
    }
  }
}

}  // namespace carma::sim
