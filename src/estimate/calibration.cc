#include "estimate/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "estimate/loaded_code.h"

namespace carma::estimate {
namespace {

// A learned constant is at least this large, because any process that has loaded CUDA uses more.
constexpr double kLeastContextMib = 64;
// A task's memory beyond the constant counts as at least this much, because smaller values are
// mostly rounding error.
constexpr double kBareRestMib = 256;

using Taught = std::vector<const task::Observation*>;

// Limits the safety margin (factor - 1) learned at this site to this multiple of the built-in
// margin.
constexpr double kMostWider = 2;

// The newest observation of each signature, by GPU type.
std::map<std::string, Taught> ByType(std::span<const task::Observation> observations) {
  std::map<std::string, Taught> by_type;
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (auto each = observations.rbegin(); each != observations.rend(); ++each) {
    if (!each->formula || each->ran_out) continue;
    if (seen.emplace(each->gpu_type, each->signature).second)
      by_type[each->gpu_type].push_back(&*each);
  }
  return by_type;
}

// The GPU type whose tasks the calibration learns from. Null if no type has enough tasks.
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
  std::ranges::sort(values);
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

double RestOf(const task::Observation& run) {
  return static_cast<double>(run.formula->rest_mib);
}

// Identifies a model. When the constant is learned, all runs of a model count as one, regardless of
// batch size and length.
std::string_view ModelOf(const task::Observation& run) {
  return run.relation.empty() ? run.signature : run.relation;
}

// Runs of models small enough to reveal the constant: those below kMostSmallMib. If there are fewer
// than kLeastCalibration such models, adds the next larger ones, up to four times that size,
// although they reveal the constant less reliably (ShiftOf).
Taught SmallOf(const Taught& taught) {
  constexpr double kStillSmallMib = 4 * kMostSmallMib;
  Taught rising = taught;
  std::ranges::stable_sort(rising, {}, [](const task::Observation* run) { return RestOf(*run); });
  Taught small;
  std::set<std::string_view> models;
  for (const task::Observation* each : rising) {
    const double rest_mib = RestOf(*each);
    const bool enough = models.size() >= kLeastCalibration && !models.contains(ModelOf(*each));
    if (rest_mib > kStillSmallMib || (rest_mib > kMostSmallMib && enough)) break;
    models.insert(ModelOf(*each));
    small.push_back(each);
  }
  return small;
}

std::size_t ModelsIn(const Taught& taught) {
  std::set<std::string_view> models;
  for (const task::Observation* each : taught) models.insert(ModelOf(*each));
  return models.size();
}

// The constant (without libraries) that fits the tasks best, assuming that they all use one loading
// mode. `disagreement` is the tasks' mean deviation from this constant.
struct Base {
  double mib = 0;
  double disagreement = 0;
  bool loads_so = false;  // `mib` is plausible for the assumed loading mode
};

Base LearnBase(const Taught& taught, Loading loading) {
  std::map<std::string_view, double> voices;
  for (const task::Observation* each : taught) ++voices[ModelOf(*each)];
  const double plain_mib = ShippedMib({loading, Libraries::kPlain});
  std::vector<std::pair<double, double>> bases;
  bases.reserve(taught.size());
  for (const task::Observation* each : taught) {
    const double rest = RestOf(*each);
    const Libraries libraries = CodeOf(static_cast<double>(each->formula->context_mib)).libraries;
    const double libraries_mib = ShippedMib({loading, libraries}) - plain_mib;
    bases.emplace_back(static_cast<double>(each->measured_mib) - rest - libraries_mib,
                       1 / std::max(rest, kBareRestMib) / voices[ModelOf(*each)]);
  }
  Base base{.mib = WeightedMedian(bases)};
  double weights = 0;
  for (const auto& [mib, weight] : bases) {
    base.disagreement += weight * std::abs(mib - base.mib);
    weights += weight;
  }
  base.disagreement /= weights;
  base.loads_so = LoadingOfBase(base.mib) == loading;
  return base;
}

Base ShownBase(const Taught& small) {
  std::array bases{LearnBase(small, Loading::kLazy), LearnBase(small, Loading::kEager)};
  std::ranges::sort(bases, {}, [](const Base& base) {
    return std::pair(base.loads_so ? 0 : 1, base.disagreement);
  });
  return bases.front();
}

double PredictedMib(const Site& site, const task::Observation& run) {
  return site.ContextMib(static_cast<double>(run.formula->context_mib)) + RestOf(run);
}

double ErrorOf(const Site& site, const task::Observation& run) {
  return std::abs(PredictedMib(site, run) / static_cast<double>(run.measured_mib) - 1);
}

// shown_mib: how far the measured base is from the built-in one. used_mib: how far to shift the
// built-in base; 0 if the formula's error for such small models can explain the difference.
struct Shift {
  double shown_mib = 0;
  double doubt_mib = 0;
  double used_mib = 0;
};

Shift ShiftOf(const Taught& small) {
  // For 90 % of the models of this size, the formula's error is below this fraction
  // (docs/inside/estimators.md, "Calibration").
  constexpr double kFormulaError = 0.2;
  // A true constant is nearly the same for all tasks, so a shift smaller than this multiple of the
  // tasks' disagreement is treated as noise.
  constexpr double kMostDisagreement = 3;
  std::vector<double> rests;
  double assumed_mib = 0;
  for (const task::Observation* each : small) {
    rests.push_back(RestOf(*each));
    const LoadedCode code = CodeOf(static_cast<double>(each->formula->context_mib));
    assumed_mib += ShippedMib({code.loading, Libraries::kPlain});
  }
  std::ranges::sort(rests);
  const Base base = ShownBase(small);
  Shift shift;
  // The shift is relative to the mean constant assumed for these tasks, which depends on the
  // PyTorch versions that they stated.
  shift.shown_mib = base.mib - assumed_mib / static_cast<double>(small.size());
  shift.doubt_mib = std::max(kFormulaError * std::max(rests[rests.size() / 2], kBareRestMib),
                             kMostDisagreement * base.disagreement);
  if (std::abs(shift.shown_mib) <= shift.doubt_mib) return shift;
  const double less_mib = shift.doubt_mib / std::sqrt(static_cast<double>(ModelsIn(small)));
  shift.used_mib = base.mib - std::copysign(less_mib, shift.shown_mib) - EagerBaseMib();
  return shift;
}

// Mean errors in a cross-validation that predicts each tenth of the models from the other nine
// tenths.
struct Trial {
  double learned = 0;
  double shipped = 0;
};

Trial LeaveOut(const Taught& taught) {
  constexpr std::size_t kParts = 10;
  std::map<std::string_view, std::size_t> parts;
  for (const task::Observation* each : taught) parts.try_emplace(ModelOf(*each), parts.size());
  Trial trial;
  const auto count = static_cast<double>(taught.size());
  for (std::size_t part = 0; part < kParts; ++part) {
    Taught others;
    for (const task::Observation* each : taught) {
      if (parts[ModelOf(*each)] % kParts != part) others.push_back(each);
    }
    Site learned;
    if (const Taught small = SmallOf(others); !small.empty())
      learned.context_shift_mib = ShiftOf(small).used_mib;
    for (const task::Observation* each : taught) {
      if (parts[ModelOf(*each)] % kParts != part) continue;
      trial.learned += ErrorOf(learned, *each) / count;
      trial.shipped += ErrorOf(Site{}, *each) / count;
    }
  }
  return trial;
}

// Sets the constant's shift, and the reason why it is or is not used.
void LearnConstant(const Taught& taught, Site& site) {
  const Taught small = SmallOf(taught);
  const std::size_t models = ModelsIn(small);
  if (models < kLeastCalibration) {
    site.reason = fmt::format(
        "as shipped: {} of the finished models are small enough to reveal the constant, but {} are "
        "needed",
        models, kLeastCalibration);
    return;
  }
  const Shift shift = ShiftOf(small);
  if (shift.used_mib == 0) {
    site.reason = fmt::format(
        "as shipped: {} small models show a shift of {:+.0f} MiB, which is within the formula's "
        "own error of {:.0f} MiB",
        models, shift.shown_mib, shift.doubt_mib);
    return;
  }
  const Trial trial = LeaveOut(taught);
  const std::string errors = fmt::format(
      "a mean error of {:.1f} % on held-out models, compared with {:.1f} % for the shipped "
      "constant",
      100 * trial.learned, 100 * trial.shipped);
  if (trial.learned >= trial.shipped) {
    site.reason =
        fmt::format("as shipped: a shift learned from {} small models ({:+.0f} MiB) has {}", models,
                    shift.shown_mib, errors);
    return;
  }
  site.context_shift_mib = shift.used_mib;
  site.reason = fmt::format("learned from {} small models, with {}", models, errors);
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
  // If there are too few runs for this coverage, the second-largest ratio is used, so that a single
  // outlier does not determine all bounds.
  const double own = rank <= n ? ratios[std::max<std::size_t>(rank, 1) - 1]
                               : std::max(shipped, n >= 2 ? ratios[n - 2] : shipped);
  const double trust =
      std::min(1.0, static_cast<double>(n) / static_cast<double>(kFullCalibration));
  const double mixed = trust * own + (1 - trust) * shipped;
  return std::clamp(mixed, shipped, std::max(shipped, 1 + kMostWider * (shipped - 1)));
}

std::string Site::Remark() const {
  if (taught_by.empty() || taught_by == gpu_type) return "";
  return fmt::format("the calibration was learned on {} and applied to {}", taught_by,
                     gpu_type.empty() ? "an unknown GPU" : gpu_type);
}

Site Calibrate(std::span<const task::Observation> observations, const std::string& gpu_type) {
  Site site;
  site.gpu_type = gpu_type;
  const std::map<std::string, Taught> by_type = ByType(observations);
  const auto* teacher = Teacher(by_type, gpu_type);
  if (teacher == nullptr) {
    site.reason =
        fmt::format("as shipped: fewer than {} different tasks with a summary have finished",
                    kLeastCalibration);
    return site;
  }
  site.taught_by = teacher->first;
  site.tasks = teacher->second.size();
  LearnConstant(teacher->second, site);
  for (const task::Observation* each : teacher->second)
    site.ratios.push_back(static_cast<double>(each->measured_mib) / PredictedMib(site, *each));
  std::ranges::sort(site.ratios);
  return site;
}

}  // namespace carma::estimate
