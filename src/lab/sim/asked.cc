// Servers chosen by their own answers: would a server start the task now, and how well would it
// fit, by the server's own guards and mapper. A server with a waiting task takes no other. So a
// placed task starts at once, unless the server's answer could not know of something.
#include <algorithm>
#include <functional>

#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

// If more servers than this have changed, all servers are asked again.
constexpr std::size_t kMostTouched = 4096;

}  // namespace

bool Simulation::IsKeptFrom(const Job& job, std::uint32_t node) const {
  return kept_for_ && *kept_for_ != core::Number(job.id) && std::ranges::count(kept_, node) > 0;
}

// Like a server that keeps GPUs for its first task after pass_limit: the servers with the fewest
// tasks, as many as the task needs, take no other task until it has started.
void Simulation::KeepServers(std::span<const LinesAbove::Waiting> looked_at) {
  if (kept_for_ || !options_.policy.pass_limit || looked_at.size() < 2) return;
  const auto since = [this](const LinesAbove::Waiting& each) { return jobs_[each.job].lined_up; };
  const LinesAbove::Waiting first = *std::ranges::min_element(looked_at, {}, since);
  if (now_ - since(first) < *options_.policy.pass_limit) return;
  Job& job = jobs_[first.job];
  std::vector<std::pair<int, std::uint32_t>> by_tasks;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (job.shunned != i && CouldTake(*job.alike, i)) by_tasks.emplace_back(nodes_[i].launched, i);
  }
  std::ranges::sort(by_tasks);
  if (by_tasks.empty()) return;
  kept_for_ = first.number;
  kept_ = {by_tasks.front().second};
  if (!IsGang(job)) return;
  std::size_t looks = 0;
  do {
    ++looks;
    kept_ = WholeServersFor(job, [&](std::uint32_t node) {
      return std::ranges::any_of(std::span(by_tasks).first(looks),
                                 [node](const auto& each) { return each.second == node; });
    });
  } while (kept_.empty() && looks < by_tasks.size());
}

bool Simulation::IsFreeOfAll(std::uint32_t index) const {
  const Node& node = nodes_[index];
  return !node.whole && node.launched == 0 && node.waiting == 0;
}

std::optional<double> Simulation::Ask(Alike& alike, std::uint32_t index) {
  Node& node = nodes_[index];
  if (node.whole || node.waiting > node.recovering || !CouldTake(alike, index)) return {};
  const core::Scheduler& scheduler = node.core.scheduler();
  if (options_.host.promised &&
      scheduler.HostFor(alike.request, now_).verdict.fit != core::Fit::kFits)
    return {};
  if (node.kind >= alike.needs.size()) alike.needs.resize(node.kind + 1);
  std::optional<core::Need>& need = alike.needs[node.kind];
  if (!need || !reservations_.empty()) {  // whose they are at this moment
    need = scheduler.NeedOfNew(alike.request, alike.estimate);
    need->load = core::NeighbourOf(scheduler.config(), alike.request, alike.profile);
    need->alone = alike.profile.alone;
  }
  if (node.viewed != node.told || node.views.empty()) {
    node.views = scheduler.Gpus(now_);
    node.viewed = node.told;
  }
  std::vector<double> scores;
  for (const core::GpuView& gpu : node.views) {
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

const std::optional<double>& Simulation::AnswerOf(Alike& alike, std::uint32_t index) {
  if (alike.answers.empty()) alike.answers.resize(nodes_.size());
  Alike::Answer& answer = alike.answers[index];
  if (answer.told != nodes_[index].told) {
    answer.score = Ask(alike, index);
    answer.told = nodes_[index].told;
  }
  return answer.score;
}

std::vector<std::uint32_t> Simulation::NodesByAnswers(Job& job) {
  if (IsGang(job)) {
    return WholeServersFor(
        job, [&](std::uint32_t node) { return IsFreeOfAll(node) && !IsKeptFrom(job, node); });
  }
  Alike& alike = *job.alike;
  if (alike.none_epoch == epoch_) {
    const std::span<const std::uint32_t> since = std::span(touched_).subspan(alike.none_touched);
    const bool none = std::ranges::none_of(
        since, [&](std::uint32_t node) { return AnswerOf(alike, node).has_value(); });
    alike.none_touched = touched_.size();
    if (none) return {};
    alike.none_epoch = 0;
  }
  std::optional<std::uint32_t> best;
  bool somebody = false;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const std::optional<double>& answer = AnswerOf(alike, i);
    if (!answer) continue;
    somebody = true;
    if (job.shunned == i || IsKeptFrom(job, i)) continue;
    if (!best || *answer > *AnswerOf(alike, *best)) best = i;
  }
  if (best) return {*best};
  if (!somebody) {
    alike.none_epoch = epoch_;
    alike.none_touched = touched_.size();
  }
  return {};
}

void Simulation::PlaceByAnswers() {
  // Reports are never older than that; what a server itself decides is known at once.
  if (now_ - reported_ >= options_.above.report_every) Report();
  if (touched_.size() > kMostTouched) {
    touched_.clear();
    ++epoch_;
  }
  const auto looks = static_cast<std::size_t>(options_.policy.backfill);
  for (bool placed = true; placed && !lines_.empty();) {
    placed = false;
    const std::vector<LinesAbove::Waiting> first = lines_.First(looks, shares_, now_);
    KeepServers(first);
    for (const LinesAbove::Waiting& each : first) {
      const std::vector<std::uint32_t> nodes = NodesByAnswers(jobs_[each.job]);
      if (nodes.empty()) continue;
      PlaceOn(each.job, nodes);
      placed = true;
      break;
    }
  }
}

void Simulation::Report() {
  reported_ = now_;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    CatchUp(i);
    if (!events_.empty()) Tell(i);
  }
}

}  // namespace carma::sim
