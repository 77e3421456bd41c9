#include "lab/verbs/profile/fit.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "lab/sim/models.h"
#include "profile/profiles.h"

namespace carma::cli {
namespace {

constexpr double kFirstSensitivity = 0.8;  // close to the catalogue's mean
constexpr double kLeastActivity = 0.01;
constexpr double kLeast = 1e-4, kMost = 1e3;
constexpr int kMostSweeps = 2'000;
constexpr double kSettled = 1e-7;
constexpr double kLongestStep = 0.5;
// Weight of the initial guess; so small that it matters only for parameters on which no measured
// slowdown depends.
constexpr double kTie = 1e-7;

double Slowdown(const sim::Interference& model, core::SharingMethod sharing,
                std::span<const sim::Load> workloads, const SeenSlowdown& of) {
  std::vector<sim::Load> loads;
  loads.reserve(of.members.size());
  for (const std::size_t each : of.members) loads.push_back(workloads[each]);
  std::vector<double> speeds(loads.size());
  sim::Speeds(model, sharing, loads, speeds);
  return 1 / speeds[of.who];
}

// Returns the errors that depend on a parameter, given its current value.
using Errors = std::function<std::vector<double>()>;

// Moves the parameter's logarithm to its least-squares value, keeping the other parameters fixed.
// Returns how far it moved.
double MoveToLeast(double& parameter, double first, const Errors& errors) {
  constexpr double kProbe = 1e-4;
  const std::vector<double> here = errors();
  const double at = parameter;
  parameter = at * std::exp(kProbe);
  const std::vector<double> there = errors();
  double slope = kTie * std::log(at / first), bend = kTie;
  for (std::size_t i = 0; i < here.size(); ++i) {
    const double change = (there[i] - here[i]) / kProbe;
    slope += here[i] * change;
    bend += change * change;
  }
  const double step = std::clamp(-slope / bend, -kLongestStep, kLongestStep);
  parameter = std::clamp(at * std::exp(step), kLeast, kMost);
  return std::abs(std::log(parameter / at));
}

double MeanAbs(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::abs(value);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

class MpsFitting {
 public:
  MpsFitting(std::span<const double> u, std::span<const SeenSlowdown> seen)
      : seen_(seen), of_(u.size()) {
    for (const double activity : u) {
      const double pressure = profile::kPressurePerActivity * std::max(activity, kLeastActivity);
      loads_.push_back({activity, kFirstSensitivity, pressure});
    }
    first_ = loads_;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (const std::size_t member : seen[i].members) {
        if (of_[member].empty() || of_[member].back() != i) of_[member].push_back(i);
      }
    }
  }

  MpsFit Run() {
    for (int sweep = 0; sweep < kMostSweeps && Sweep() > kSettled; ++sweep) {
    }
    ToScale();
    MpsFit fit;
    for (const sim::Load& load : loads_) {
      fit.sensitivity.push_back(load.sensitivity);
      fit.pressure.push_back(load.pressure);
    }
    std::vector<std::vector<double>> own(loads_.size());
    std::vector<double> all;
    for (const SeenSlowdown& each : seen_) {
      all.push_back(Error(each));
      own[each.members[each.who]].push_back(all.back());
    }
    fit.error = MeanAbs(all);
    for (const std::vector<double>& errors : own) fit.errors.push_back(MeanAbs(errors));
    return fit;
  }

 private:
  double Error(const SeenSlowdown& seen) const {
    return std::log(Slowdown(model_, core::SharingMethod::kMps, loads_, seen) / seen.slowdown);
  }
  std::vector<double> ErrorsOf(std::size_t workload) const {
    std::vector<double> errors;
    errors.reserve(of_[workload].size());
    for (const std::size_t i : of_[workload]) errors.push_back(Error(seen_[i]));
    return errors;
  }
  double Sweep() {
    double furthest = 0;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (of_[i].empty()) continue;
      const auto errors = [&] { return ErrorsOf(i); };
      furthest =
          std::max({furthest, MoveToLeast(loads_[i].sensitivity, first_[i].sensitivity, errors),
                    MoveToLeast(loads_[i].pressure, first_[i].pressure, errors)});
    }
    return furthest;
  }
  // Sets the scale: s * c and p / c give the same slowdowns for every c.
  void ToScale() {
    double sum = 0;
    int count = 0;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (of_[i].empty() || loads_[i].sm_active < kLeastActivity) continue;
      sum += std::log(loads_[i].pressure / loads_[i].sm_active);
      ++count;
    }
    if (count == 0) return;
    const double factor = profile::kPressurePerActivity / std::exp(sum / count);
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (of_[i].empty()) continue;
      loads_[i].pressure *= factor;
      loads_[i].sensitivity /= factor;
    }
  }

  sim::Interference model_;
  std::span<const SeenSlowdown> seen_;
  std::vector<std::vector<std::size_t>> of_;  // by workload: the slowdowns that involve it
  std::vector<sim::Load> loads_, first_;
};

}  // namespace

MpsFit FitMps(std::span<const double> u, std::span<const SeenSlowdown> seen) {
  return MpsFitting(u, seen).Run();
}

double PredictMps(std::span<const double> u, const MpsFit& fit, const SeenSlowdown& of) {
  std::vector<sim::Load> loads;
  loads.reserve(u.size());
  for (std::size_t i = 0; i < u.size(); ++i)
    loads.push_back({u[i], fit.sensitivity[i], fit.pressure[i]});
  return Slowdown({}, core::SharingMethod::kMps, loads, of);
}

StreamsFit FitStreams(std::span<const double> u, std::span<const SeenSlowdown> seen) {
  StreamsFit fit{.a = sim::Interference().streams_a};
  const double first = fit.a;
  const auto errors = [&] {
    std::vector<double> all;
    all.reserve(seen.size());
    for (const SeenSlowdown& each : seen)
      all.push_back(std::log(PredictStreams(u, fit.a, each) / each.slowdown));
    return all;
  };
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    if (MoveToLeast(fit.a, first, errors) <= kSettled) break;
  }
  fit.error = MeanAbs(errors());
  return fit;
}

double PredictStreams(std::span<const double> u, double a, const SeenSlowdown& of) {
  std::vector<sim::Load> loads;
  loads.reserve(u.size());
  for (const double activity : u) loads.push_back({.sm_active = activity});
  sim::Interference model;
  model.streams_a = a;
  return Slowdown(model, core::SharingMethod::kStreams, loads, of);
}

}  // namespace carma::cli
