#include "lab/sim/bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "lab/sim/delivery.h"
#include "lab/sim/residency.h"
#include "report/bounds.h"

namespace carma::sim {
namespace {

// Computes the share of a GPU that a part of a task takes at full speed if no task may exceed a
// slowdown limit. Results are cached by kind of load.
class LimitedShares {
 public:
  LimitedShares(std::span<const Arrival> arrivals, const RunOptions& options) {
    std::vector<Load> loads;
    for (const Arrival& arrival : arrivals) {
      for (std::size_t part = 0; part < arrival.workload->sm_active.size(); ++part) {
        const Load load = LoadAsListed(*arrival.workload, part);
        if (number_.try_emplace(KeyOf(load), loads.size()).second) loads.push_back(load);
      }
    }
    if (options.collocation == core::SharingMethod::kAlone) {
      shares_.assign(loads.size(), 1.0);
      return;
    }
    const std::vector<double> most =
        MostDelivered(options.interference, options.collocation, loads, options.slowdown_limit);
    for (std::size_t i = 0; i < loads.size(); ++i)
      shares_.push_back(most[i] > 0 ? loads[i].sm_active / most[i] : 0);
  }

  double Of(const trace::Workload& workload) const {
    double sum = 0;
    for (std::size_t part = 0; part < workload.sm_active.size(); ++part)
      sum += shares_[number_.at(KeyOf(LoadAsListed(workload, part)))];
    return sum;
  }

 private:
  using Key = std::tuple<double, double, double>;
  static Key KeyOf(const Load& load) { return {load.sm_active, load.sensitivity, load.pressure}; }

  std::map<Key, std::size_t> number_;
  std::vector<double> shares_;
};

}  // namespace

std::vector<report::Bound> BoundsOf(const Cluster& cluster, std::span<const Arrival> arrivals,
                                    const RunOptions& options) {
  if (cluster.servers.empty() || arrivals.empty()) return {};
  const GpuType& kind = cluster.servers.front().gpus.front();
  report::BoundPool pool{.gpus = 0,
                         .usable_mib = static_cast<double>(kind.total_mib - kind.reserved_mib)};
  for (const ServerShape& server : cluster.servers) {
    for (const GpuType& gpu : server.gpus) {
      if (gpu.type != kind.type) return {};
      ++pool.gpus;
    }
  }
  std::optional<LimitedShares> limited;
  // With MIG there is no such bound, because instances do not slow each other down.
  if (options.slowdown_limit > 0 && options.collocation != core::SharingMethod::kMig) {
    limited.emplace(arrivals, options);
    pool.slowdown_limit = options.slowdown_limit;
  }
  // While its memory grows, a task holds less than its peak.
  const double least_share = std::min(1.0, options.memory.first_share);
  std::vector<report::BoundTask> tasks;
  tasks.reserve(arrivals.size());
  for (const Arrival& arrival : arrivals) {
    const trace::Workload& workload = *arrival.workload;
    tasks.push_back(
        {.release = arrival.at - arrivals.front().at,
         .run_s = arrival.solo_s.value_or(workload.solo_s) / kind.relative_speed,
         .load_s = base::Seconds(options.memory.load),
         .gpus = workload.gpus,
         .sm_active = std::accumulate(workload.sm_active.begin(), workload.sm_active.end(), 0.0),
         .memory_mib = least_share *
                       std::accumulate(workload.memory_mib.begin(), workload.memory_mib.end(), 0.0),
         .limited_share = limited ? limited->Of(workload) : 0});
  }
  return report::MakespanBounds(tasks, pool);
}

}  // namespace carma::sim
