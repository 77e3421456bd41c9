#include "estimate/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "estimate/loaded_code.h"

namespace carma::estimate {
namespace {

// A process that has loaded CUDA holds more than this, whatever a median says.
constexpr double kLeastContextMib = 64;
// Below this a rest is as small as its own rounding: no more weight for it.
constexpr double kBareRestMib = 256;

using Taught = std::vector<const task::Observation*>;

// The newest observation of every signature, by GPU type.
std::map<std::string, Taught> ByType(std::span<const task::Observation> observations) {
  std::map<std::string, Taught> by_type;
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (auto each = observations.rbegin(); each != observations.rend(); ++each) {
    if (!each->formula || each->ran_out) continue;
    if (seen.emplace(each->gpu_type, each->signature).second) {
      by_type[each->gpu_type].push_back(&*each);
    }
  }
  return by_type;
}

// The type to learn from; null: too few tasks on any.
const std::pair<const std::string, Taught>* Teacher(const std::map<std::string, Taught>& by_type,
                                                    const std::string& gpu_type) {
  const std::pair<const std::string, Taught>* best = nullptr;
  for (const auto& each : by_type) {
    if (each.second.size() < kLeastCalibration) continue;
    if (each.first == gpu_type) return &each;
    if (best == nullptr || each.second.size() > best->second.size()) best = &each;
  }
  return best;
}

double WeightedMedian(std::vector<std::pair<double, double>> values) {  // value, weight
  std::sort(values.begin(), values.end());
  double half = 0;
  for (const auto& [value, weight] : values) half += weight / 2;
  for (const auto& [value, weight] : values) {
    half -= weight;
    if (half <= 0) return value;
  }
  return values.back().first;
}

double EagerBaseMib() {
  return ShippedMib({Loading::kEager, Libraries::kPlain});
}

// A constant without libraries, as the tasks show it if they load in that way, and how far they are
// from agreeing about it.
struct Base {
  double mib = 0;
  double disagreement = 0;
  bool loads_so = false;  // it is of the size that this way of loading takes
};

Base LearnBase(const Taught& taught, Loading loading) {
  const double plain_mib = ShippedMib({loading, Libraries::kPlain});
  std::vector<std::pair<double, double>> bases;
  bases.reserve(taught.size());
  for (const task::Observation* each : taught) {
    const auto rest = static_cast<double>(each->formula->rest_mib);
    const Libraries libraries = CodeOf(static_cast<double>(each->formula->context_mib)).libraries;
    const double libraries_mib = ShippedMib({loading, libraries}) - plain_mib;
    bases.emplace_back(static_cast<double>(each->measured_mib) - rest - libraries_mib,
                       1 / std::max(rest, kBareRestMib));
  }
  Base base{.mib = WeightedMedian(bases)};
  for (const auto& [mib, weight] : bases) base.disagreement += weight * std::abs(mib - base.mib);
  base.loads_so = LoadingOfBase(base.mib) == loading;
  return base;
}

double LearnShift(const Taught& taught) {
  std::array bases{LearnBase(taught, Loading::kLazy), LearnBase(taught, Loading::kEager)};
  std::ranges::sort(bases, {}, [](const Base& base) {
    return std::pair(base.loads_so ? 0 : 1, base.disagreement);
  });
  return bases.front().mib - EagerBaseMib();
}

}  // namespace

double Site::ContextMib(double shipped_mib) const {
  if (context_shift_mib == 0) return shipped_mib;
  const double base_mib = EagerBaseMib() + context_shift_mib;
  return std::max(kLeastContextMib, OnBaseMib(base_mib, CodeOf(shipped_mib).libraries));
}

double Site::Factor(double coverage, double shipped) const {
  if (ratios.empty()) return shipped;
  const std::size_t n = ratios.size();
  const auto rank = static_cast<std::size_t>(std::ceil(static_cast<double>(n + 1) * coverage));
  // One odd run must not decide about all bounds: too few runs speak through the second largest.
  const double own = rank <= n ? ratios[std::max<std::size_t>(rank, 1) - 1]
                               : std::max(shipped, n >= 2 ? ratios[n - 2] : shipped);
  const double trust =
      std::min(1.0, static_cast<double>(n) / static_cast<double>(kFullCalibration));
  return std::max(1.0, trust * own + (1 - trust) * shipped);
}

std::string Site::Remark() const {
  if (taught_by.empty() || taught_by == gpu_type) return "";
  return fmt::format("the calibration was learned on {}, this is for {}", taught_by,
                     gpu_type.empty() ? "an unknown GPU" : gpu_type);
}

Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type) {
  Site site;
  site.gpu_type = gpu_type;
  const std::map<std::string, Taught> by_type = ByType(observations);
  const auto* teacher = Teacher(by_type, gpu_type);
  if (teacher == nullptr) return site;
  site.taught_by = teacher->first;
  site.tasks = teacher->second.size();
  site.context_shift_mib = LearnShift(teacher->second);
  for (const task::Observation* each : teacher->second) {
    const double predicted_mib = site.ContextMib(static_cast<double>(each->formula->context_mib)) +
                                 static_cast<double>(each->formula->rest_mib);
    site.ratios.push_back(static_cast<double>(each->measured_mib) / predicted_mib);
  }
  std::sort(site.ratios.begin(), site.ratios.end());
  return site;
}

}  // namespace carma::estimate
