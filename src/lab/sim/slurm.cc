// Slurm's choice of servers, including its backfill.
#include "lab/sim/placing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace carma::sim {
namespace {

// Slurm's bf_max_job_test
constexpr std::size_t kBackfillLooks = 500;

}  // namespace

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

}  // namespace carma::sim
