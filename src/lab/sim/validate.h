// Compares the published evaluation of the original system with simulations. Each figure has its
// source, the mean and spread of many perturbed runs, and the criterion for agreement.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

// Traces of the original system's evaluation, which are not part of CARMA.
enum class PublishedTrace {
  kHeavy60,  // 60 tasks of the dissertation's sections 6.4.4 to 6.4.6
  kMix90,    // 90 tasks of the dissertation's sections 6.4.1 to 6.4.3
  kNewer60,  // the newer repository's 60 tasks, with its control loop of November 2025
};
// "heavy60", "mix90", "t1".
std::string_view PublishedTraceName(PublishedTrace trace);
// Recognises a trace by its number of tasks and last submission; empty for any other trace.
std::optional<PublishedTrace> RecognisePublished(std::span<const Arrival> arrivals);

enum class Figure {
  kMakespanMin,
  kMakespanChange,  // relative to exclusive use in the same run; -0.25 means a quarter less
  kEnergyMj,
  kEnergyChange,
  kSmActiveChange,
  kMemoryChange,
  kOomCrashes,
  kSlowdown,
  kPowerW,
};
std::string_view FigureName(Figure figure);

// A calibration figure was used to fit the models' constants and so cannot confirm them.
enum class Standing { kCalibration, kPrediction };

// A policy from the evaluation, with its simulator settings.
struct PublishedPolicy {
  std::string_view label;  // "MAGM 2 GB 80 %"
  std::string_view mapper;
  double sm_cap = 0;           // 0: none
  std::int64_t floor_mib = 0;  // used without estimates
  std::int64_t margin_mib = 0;
  std::string_view estimates = "none";  // as EstimateOptions::source
  core::SharingMethod collocation = core::SharingMethod::kMps;
};
// The policies of the trace that have a published figure; exclusive use comes first.
std::vector<PublishedPolicy> PoliciesOf(PublishedTrace trace);
// The policy's settings, with the rules of the published system that ran the trace. Never fails for
// a policy of PoliciesOf.
Result<RunOptions> OptionsOf(PublishedTrace trace, const PublishedPolicy& policy);

struct Comparison {
  std::string policy;
  Figure figure{};
  std::string source;  // "dissertation, table 6.6"
  Standing standing = Standing::kPrediction;
  double published = 0;
  double simulated = 0;  // mean over the runs
  double deviation = 0;  // standard deviation of single runs
  double low = 0;        // smallest value of a single run
  double high = 0;
  // Required range of the mean, [from, to]; empty if the figure is only shown.
  std::optional<double> from;
  std::optional<double> to;
  bool Agrees() const;
  // True if the published figure, which comes from a single run, is within two standard deviations
  // of the simulated mean.
  bool WithinNoise() const;
};

struct ValidationOptions {
  int runs = 40;
  double noise = 0.03;
  std::uint64_t seed = 1;
  // Called after each run, from any thread but never from two at once.
  std::function<void(int done, int all)> progress;
};
// Runs every published policy on these servers. Returns the errors of Simulate.
Result<std::vector<Comparison>> Validate(PublishedTrace trace, const Cluster& cluster,
                                         std::span<const Arrival> arrivals,
                                         const ValidationOptions& options);

// Compares the models with small published cases. No trace is needed, only shipped data.
std::vector<Comparison> ValidateModels();

// Formats the comparisons as a readable table, with one line per figure.
std::string Table(std::span<const Comparison> comparisons);

}  // namespace carma::sim
