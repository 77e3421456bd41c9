// Servers chosen as in Slurm: by counts, in the order of the queue. If the first task has to wait,
// later ones start by backfill, which keeps a place for the first task only.
#include <algorithm>

#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

// bf_max_job_test
constexpr std::size_t kBackfillLooks = 500;

}  // namespace

bool Simulation::MayPass(const Kept& kept, std::uint32_t node, const Job& job) const {
  if (std::ranges::find(kept.nodes, node) == kept.nodes.end()) return true;
  return now_ + LimitOf(job) <= kept.from ||
         counts_.FitsBeside(node, kept.asked, kept.from, job.alike->asked);
}

std::vector<std::uint32_t> Simulation::NodesByCounts(Job& job, const Kept* kept) {
  const auto takes = [&](std::uint32_t node) {
    return counts_.Fits(node, job.alike->asked) && (!kept || MayPass(*kept, node, job));
  };
  if (IsGang(job)) return WholeServersFor(job, takes);
  using Rank = std::pair<int, std::uint32_t>;
  std::optional<Rank> best;
  const auto look = [&](std::uint32_t node) {
    const Rank rank{options_.above.spread ? counts_.GpusBooked(node) : 0, node};
    if ((best && *best < rank) || job.shunned == node) return;
    if (takes(node) && CouldTake(*job.alike, node)) best = rank;
  };
  if (kept == nullptr && blocked_ == core::Number(job.id)) {
    std::ranges::for_each(freed_, look);
  } else {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) look(i);
  }
  if (!best) return {};
  return {best->second};
}

void Simulation::PlaceByCounts() {
  while (!lines_.empty()) {
    const JobIndex head = lines_.First(1, shares_, now_).front().job;
    const std::vector<std::uint32_t> nodes = NodesByCounts(jobs_[head], nullptr);
    freed_.clear();  // what is left there is known of this one alone
    blocked_.reset();
    if (nodes.empty()) {
      blocked_ = core::Number(jobs_[head].id);
      return;
    }
    PlaceOn(head, nodes);
  }
}

std::optional<Simulation::Kept> Simulation::KeptFor(Job& job) {
  const CountAsked& asked = job.alike->asked;
  std::vector<std::pair<base::Time, std::uint32_t>> froms;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (job.shunned == i || !CouldTake(*job.alike, i)) continue;
    if (const auto from = counts_.FitsFrom(i, asked, now_)) froms.emplace_back(*from, i);
  }
  std::ranges::sort(froms);
  Kept kept{.asked = asked};
  if (!IsGang(job)) {
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
  // The earliest time at which enough of them are empty.
  const auto enough = std::ranges::find_if(froms, [&](const auto& each) {
    kept.nodes = WholeServersFor(job, is_by(each.first));
    return !kept.nodes.empty();
  });
  if (enough == froms.end()) return std::nullopt;
  kept.from = enough->first;
  return kept;
}

void Simulation::Backfill() {
  PlaceByCounts();
  std::optional<Kept> kept;
  for (const LinesAbove::Waiting& each : lines_.First(kBackfillLooks, shares_, now_)) {
    Job& job = jobs_[each.job];
    if (!kept) {  // the first, which has just been looked at
      kept = KeptFor(job);
      if (!kept) return;
      continue;
    }
    const std::vector<std::uint32_t> nodes = NodesByCounts(job, &*kept);
    if (!nodes.empty()) PlaceOn(each.job, nodes);
  }
}

}  // namespace carma::sim
