#include "lab/sim/bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "lab/sim/residency.h"
#include "report/bounds.h"

namespace carma::sim {
namespace {

// Maximum number of combinations of tasks to try for one load.
constexpr int kMostLooks = 20'000;

// Searches for the best set of neighbours. Each added task slows the others down, so once a set
// exceeds the limit, all larger sets that contain it are skipped.
class Search {
 public:
  // by_worth: the order in which neighbours are tried.
  Search(std::span<const Load> loads, const std::vector<std::size_t>& by_worth, double limit,
         double most)
      : loads_(loads), by_worth_(by_worth), limit_(limit), most_(most) {}

  double With(std::size_t load) {
    best_ = loads_[load].sm_active;
    looks_ = 0;
    members_ = {load};
    Extend(0);
    return std::min(best_, most_);
  }

 private:
  // Throughput of the members; negative if one of them would exceed the slowdown limit.
  double Delivered() const {
    double pressure = 0, delivered = 0;
    for (const std::size_t each : members_) pressure += loads_[each].pressure;
    for (const std::size_t each : members_) {
      const Load& load = loads_[each];
      const double slowdown = 1 + load.sensitivity * (pressure - load.pressure);
      if (slowdown > limit_) return -1;
      delivered += load.sm_active / slowdown;
    }
    return delivered;
  }

  void Extend(std::size_t from) {
    for (std::size_t next = from; next < by_worth_.size() && best_ < most_; ++next) {
      if (++looks_ > kMostLooks) {
        best_ = most_;
        return;
      }
      members_.push_back(by_worth_[next]);
      if (const double delivered = Delivered(); delivered >= 0) {
        best_ = std::max(best_, delivered);
        Extend(next);
      }
      members_.pop_back();
    }
  }

  std::span<const Load> loads_;
  const std::vector<std::size_t>& by_worth_;
  const double limit_, most_;
  double best_ = 0;
  int looks_ = 0;
  std::vector<std::size_t> members_;
};

}  // namespace

std::vector<double> MostDelivered(const Interference& model, core::SharingMethod sharing,
                                  std::span<const Load> loads, double limit) {
  std::vector<Load> alike(loads.begin(), loads.end());
  if (sharing != core::SharingMethod::kMps) {
    for (Load& load : alike) load = AsTurns(model, load);
  }
  const double most =
      sharing == core::SharingMethod::kMps ? model.mps_saturation : kStreamsSaturation;
  std::vector<std::size_t> by_worth(alike.size());
  std::iota(by_worth.begin(), by_worth.end(), std::size_t{0});
  // Tasks that do a lot of work but barely slow down their neighbours come first, so the best set
  // is found early.
  std::ranges::stable_sort(by_worth, [&](std::size_t a, std::size_t b) {
    return alike[a].sm_active * alike[b].pressure > alike[b].sm_active * alike[a].pressure;
  });
  Search search(alike, by_worth, limit, most);
  std::vector<double> answers;
  answers.reserve(alike.size());
  for (std::size_t i = 0; i < alike.size(); ++i) answers.push_back(search.With(i));
  return answers;
}

namespace {

// For each part of a task, the share of a GPU that it uses at full speed: the part's SM activity
// divided by MostDelivered().
class LimitedShares {
 public:
  LimitedShares(std::span<const Arrival> arrivals, const RunOptions& options) {
    std::vector<Load> loads;
    for (const Arrival& arrival : arrivals) {
      for (std::size_t part = 0; part < arrival.workload->sm_active.size(); ++part) {
        const Load load = LoadAsListed(*arrival.workload, part);
        if (shares_.try_emplace(KeyOf(load), 1.0).second) loads.push_back(load);
      }
    }
    if (options.collocation == core::SharingMethod::kAlone) return;
    const std::vector<double> most =
        MostDelivered(options.interference, options.collocation, loads, options.slowdown_limit);
    for (std::size_t i = 0; i < loads.size(); ++i)
      shares_[KeyOf(loads[i])] = most[i] > 0 ? loads[i].sm_active / most[i] : 0;
  }

  double Of(const trace::Workload& workload) const {
    double sum = 0;
    for (std::size_t part = 0; part < workload.sm_active.size(); ++part)
      sum += shares_.at(KeyOf(LoadAsListed(workload, part)));
    return sum;
  }

 private:
  using Key = std::tuple<double, double, double>;
  static Key KeyOf(const Load& load) { return {load.sm_active, load.sensitivity, load.pressure}; }

  std::map<Key, double> shares_;
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
  // With MIG, a slowdown limit adds no bound, because instances do not slow each other down.
  if (options.slowdown_limit > 0 && options.collocation != core::SharingMethod::kMig) {
    limited.emplace(arrivals, options);
    pool.slowdown_limit = options.slowdown_limit;
  }
  // The bound must hold for every run, so it counts only the share of peak memory that a task
  // allocates when it starts.
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
