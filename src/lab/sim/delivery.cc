#include "lab/sim/delivery.h"

#include <algorithm>
#include <numeric>

namespace carma::sim {
namespace {

// Maximum number of sets of tasks that are tried for one load.
constexpr int kMostLooks = 20'000;

// Searches for the best set of neighbours. Each further task slows the others down. So if a set
// breaks the limit, every larger set that contains it breaks the limit too and is skipped.
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
  // Tasks with much work and little effect on neighbours come first, so that the best set is found
  // soon.
  std::ranges::stable_sort(by_worth, [&](std::size_t a, std::size_t b) {
    return alike[a].sm_active * alike[b].pressure > alike[b].sm_active * alike[a].pressure;
  });
  Search search(alike, by_worth, limit, most);
  std::vector<double> answers;
  answers.reserve(alike.size());
  for (std::size_t i = 0; i < alike.size(); ++i) answers.push_back(search.With(i));
  return answers;
}

}  // namespace carma::sim
