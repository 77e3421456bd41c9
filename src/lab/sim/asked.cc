// Asks the servers whether they would start a task. Keeps servers free for a task if other tasks
// have been starting ahead of it for too long.
#include "lab/sim/placing.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "lab/sim/agenda.h"

namespace carma::sim {
namespace {

// If more servers than this have changed, every server is asked again.
constexpr std::size_t kMostTouched = 4096;

}  // namespace

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

// If other tasks have been starting ahead of a waiting task for at least pass_limit, reserves the
// servers that the waiting task needs, starting with those that have the fewest tasks. A reserved
// server does not accept other tasks until this task has started.
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
