#include "lab/sim/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/try.h"
#include "lab/sim/gpu_types.h"
#include "lab/sim/matrix.h"
#include "report/metrics.h"
#include "report/report.h"

namespace carma::sim {
namespace {

struct TraceFacts {
  PublishedTrace trace;
  std::string_view name;
  std::size_t tasks;
  double last_submission_s;
  std::string_view era;
};
constexpr TraceFacts kTraces[] = {
    {PublishedTrace::kHeavy60, "heavy60", 60, 8'966, "thesis"},
    {PublishedTrace::kMix90, "mix90", 90, 12'514, "thesis"},
    {PublishedTrace::kNewer60, "t1", 60, 13'767, "v2"},
};

const TraceFacts& FactsOf(PublishedTrace trace) {
  return *std::ranges::find(kTraces, trace, &TraceFacts::trace);
}

// The policies of the dissertation's chapter 6. In its scripts, the memory floors "2 GB" and "5 GB"
// are 2000 and 5000 MiB.
constexpr PublishedPolicy kPolicies[] = {
    {"exclusive", "exclusive", 0, 0, 0, "none", core::SharingMethod::kAlone},
    {"round robin, streams", "round-robin", 0, 0, 0, "none", core::SharingMethod::kStreams},
    {"round robin, MPS", "round-robin"},
    {"MAGM", "magm"},
    {"MAGM 80 %", "magm", 0.80},
    {"MAGM 2 GB 80 %", "magm", 0.80, 2'000},
    {"MAGM 5 GB 80 %", "magm", 0.80, 5'000},
    {"MAGM 5 GB 75 %", "magm", 0.75, 5'000},
    {"MAGM 5 GB 85 %", "magm", 0.85, 5'000},
    {"LUG 2 GB 80 %", "lug", 0.80, 2'000},
    {"LUG 5 GB 80 %", "lug", 0.80, 5'000},
    {"MAGM + Horus", "magm", 0, 0, 0, "horus"},
    {"MAGM + FakeTensor", "magm", 0, 0, 0, "faketensor"},
    {"MAGM + GPUMemNet", "magm", 0, 0, 0, "gpumemnet"},
    {"MAGM + Horus 80 %", "magm", 0.80, 0, 0, "horus"},
    {"MAGM + FakeTensor 80 %", "magm", 0.80, 0, 0, "faketensor"},
    {"MAGM + GPUMemNet 80 %", "magm", 0.80, 0, 0, "gpumemnet"},
    {"OWF 80 %, MPS", "worst-fit", 0.80, 0, 2'000, "oracle"},
    {"OWF 80 %, streams", "worst-fit", 0.80, 0, 2'000, "oracle", core::SharingMethod::kStreams},
    {"OBF 80 %, streams", "best-fit", 0.80, 0, 500, "oracle", core::SharingMethod::kStreams},
    {"OLUG 80 %, streams", "lug", 0.80, 0, 2'000, "oracle", core::SharingMethod::kStreams},
};

struct PublishedFigure {
  PublishedTrace trace;
  std::string_view policy;
  Figure figure;
  double value;
  std::string_view source;
  Standing standing;
  std::optional<double> from = {};  // as Comparison::from
  std::optional<double> to = {};
};

// Makespans of the 60 tasks, read from the published curves of three runs. Two of these curves are
// scaled in time so that the integral of power equals the published energy.
constexpr std::string_view kCurves = "published curves";
constexpr std::string_view kMarginal = "section 6.4.1: \"only marginal\"";

consteval PublishedFigure Within(PublishedFigure figure, double share) {
  figure.from = figure.value * (1 - share);
  figure.to = figure.value * (1 + share);
  return figure;
}
// Like Within(), for a figure that is a relative change of the makespan. The tolerance `share`
// applies to the makespan itself, not to the change.
consteval PublishedFigure ChangeWithin(PublishedFigure figure, double share) {
  figure.from = (1 + figure.value) * (1 - share) - 1;
  figure.to = (1 + figure.value) * (1 + share) - 1;
  return figure;
}

using enum PublishedTrace;
using enum Figure;
using enum Standing;
constexpr PublishedFigure kFigures[] = {
    // The solo times, the activities and the power curve of these 60 tasks are fitted to the
    // exclusive run.
    Within({kHeavy60, "exclusive", kMakespanMin, 639, kCurves, kCalibration}, 0.015),
    Within({kHeavy60, "exclusive", kEnergyMj, 33.20, "table 6.5", kCalibration}, 0.015),
    {kHeavy60, "exclusive", kOomCrashes, 0, "table 6.6", kPrediction, 0, 0},
    // The streams constant was chosen to match this energy.
    {kHeavy60, "round robin, streams", kEnergyMj, 34.75, "table 6.5", kCalibration, 33, 36},
    {kHeavy60, "round robin, streams", kOomCrashes, 9, "table 6.6", kPrediction, 8, 11},
    {kHeavy60, "round robin, MPS", kEnergyMj, 29.60, "table 6.5", kPrediction},
    {kHeavy60, "round robin, MPS", kOomCrashes, 6, "table 6.6", kPrediction, 6, 9},
    Within({kHeavy60, "MAGM 2 GB 80 %", kMakespanMin, 469, kCurves, kPrediction}, 0.04),
    Within({kHeavy60, "MAGM 2 GB 80 %", kEnergyMj, 28.78, "table 6.5", kPrediction}, 0.04),
    {kHeavy60, "MAGM 2 GB 80 %", kOomCrashes, 4, "table 6.6", kPrediction, 2, 6},
    {kHeavy60, "LUG 2 GB 80 %", kOomCrashes, 4, "table 6.6", kPrediction, 2, 6},
    {kHeavy60, "MAGM + Horus 80 %", kEnergyMj, 29.04, "table 6.5", kPrediction},
    {kHeavy60, "MAGM + Horus 80 %", kOomCrashes, 2, "table 6.6", kPrediction},
    {kHeavy60, "MAGM + FakeTensor 80 %", kEnergyMj, 30.31, "table 6.5", kPrediction},
    {kHeavy60, "MAGM + FakeTensor 80 %", kOomCrashes, 3, "table 6.6", kPrediction},
    // The slowdowns under MPS were fitted to the tasks of this run.
    Within({kHeavy60, "MAGM + GPUMemNet 80 %", kMakespanMin, 468.5, kCurves, kCalibration}, 0.04),
    Within({kHeavy60, "MAGM + GPUMemNet 80 %", kEnergyMj, 28.50, "table 6.5", kCalibration}, 0.04),
    {kHeavy60, "MAGM + GPUMemNet 80 %", kOomCrashes, 1, "table 6.6", kPrediction, 0, 2},

    // None of these 90 tasks was used to fit the models.
    {kMix90, "OWF 80 %, MPS", kMakespanChange, -0.3013, "section 6.4.1", kPrediction},
    {kMix90, "OWF 80 %, streams", kMakespanChange, 0, kMarginal, kPrediction, -0.10, 0.10},
    {kMix90, "OBF 80 %, streams", kMakespanChange, 0, kMarginal, kPrediction, -0.10, 0.10},
    {kMix90, "OLUG 80 %, streams", kMakespanChange, 0, kMarginal, kPrediction, -0.10, 0.10},
    ChangeWithin({kMix90, "LUG 5 GB 80 %", kMakespanChange, -0.28, "section 6.4.2", kPrediction},
                 0.04),
    ChangeWithin({kMix90, "MAGM + GPUMemNet", kMakespanChange, -0.25, "section 6.4.3", kPrediction},
                 0.04),
    {kMix90, "round robin, MPS", kOomCrashes, 8, "table 6.3", kPrediction},
    {kMix90, "MAGM", kOomCrashes, 5, "table 6.3", kPrediction},
    {kMix90, "MAGM 80 %", kOomCrashes, 4, "table 6.3", kPrediction},
    {kMix90, "MAGM 2 GB 80 %", kOomCrashes, 2, "table 6.3", kPrediction},
    {kMix90, "MAGM 5 GB 80 %", kOomCrashes, 2, "table 6.3", kPrediction},
    {kMix90, "LUG 5 GB 80 %", kOomCrashes, 2, "table 6.3", kPrediction},
    {kMix90, "MAGM 5 GB 75 %", kOomCrashes, 1, "table 6.3", kPrediction},
    {kMix90, "MAGM 5 GB 85 %", kOomCrashes, 2, "table 6.3", kPrediction},
    {kMix90, "MAGM + Horus", kOomCrashes, 1, "table 6.4", kPrediction},
    {kMix90, "MAGM + FakeTensor", kOomCrashes, 0, "table 6.4", kPrediction},
    {kMix90, "MAGM + GPUMemNet", kOomCrashes, 1, "table 6.4", kPrediction},
    {kMix90, "MAGM + Horus 80 %", kOomCrashes, 0, "table 6.4", kPrediction},
    {kMix90, "MAGM + FakeTensor 80 %", kOomCrashes, 0, "table 6.4", kPrediction},
    {kMix90, "MAGM + GPUMemNet 80 %", kOomCrashes, 0, "table 6.4", kPrediction},

    // The newer publication does not say which settings its best policy used.
    {kNewer60, "MAGM + GPUMemNet", kMakespanChange, -0.35, "arXiv 2508.19073 v3", kPrediction},
    {kNewer60, "MAGM + GPUMemNet", kEnergyChange, -0.15, "arXiv 2508.19073 v3", kPrediction},
    {kNewer60, "MAGM + GPUMemNet", kSmActiveChange, 0.54, "arXiv 2508.19073 v3", kPrediction},
    {kNewer60, "MAGM + GPUMemNet", kMemoryChange, 0.62, "arXiv 2508.19073 v3", kPrediction},
};

struct FigureFacts {
  Figure figure;
  std::string_view name;
  int digits;
  bool change;  // relative to exclusive use, shown in percent
  double (*value)(const report::Metrics& run) = nullptr;  // null: only in ValidateModels()
};
constexpr FigureFacts kFigureFacts[] = {
    {kMakespanMin, "makespan, min", 1, false,
     [](const report::Metrics& run) { return run.trace_total_s / 60; }},
    {kMakespanChange, "makespan, change", 1, true,
     [](const report::Metrics& run) { return run.trace_total_s; }},
    {kEnergyMj, "energy, MJ", 2, false, [](const report::Metrics& run) { return *run.energy_mj; }},
    {kEnergyChange, "energy, change", 1, true,
     [](const report::Metrics& run) { return *run.energy_mj; }},
    {kSmActiveChange, "SM activity, change", 1, true,
     [](const report::Metrics& run) { return *run.sm_active; }},
    {kMemoryChange, "memory, change", 1, true,
     [](const report::Metrics& run) { return *run.memory_used_mib; }},
    {kOomCrashes, "OOM crashes", 1, false,
     [](const report::Metrics& run) { return static_cast<double>(run.oom_crashes); }},
    {kSlowdown, "slowdown", 3, false},
    {kPowerW, "power, W", 0, false},
};

const FigureFacts& FactsOf(Figure figure) {
  return *std::ranges::find(kFigureFacts, figure, &FigureFacts::figure);
}

Comparison OneValue(const PublishedFigure& figure, double simulated) {
  return {.policy = std::string(figure.policy),
          .figure = figure.figure,
          .source = std::string(figure.source),
          .standing = figure.standing,
          .published = figure.value,
          .simulated = simulated,
          .low = simulated,
          .high = simulated,
          .from = figure.from,
          .to = figure.to};
}

Comparison Compare(const PublishedFigure& figure, std::span<const report::Metrics> runs,
                   std::span<const report::Metrics> exclusive) {
  const FigureFacts& facts = FactsOf(figure.figure);
  std::vector<double> values;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double value = facts.value(runs[i]);
    values.push_back(facts.change ? value / facts.value(exclusive[i]) - 1 : value);
  }
  const report::Estimated all = report::EstimatedOf(values);
  Comparison comparison = OneValue(figure, all.mean);
  comparison.deviation = all.sd;
  comparison.low = std::ranges::min(values);
  comparison.high = std::ranges::max(values);
  return comparison;
}

double SlowdownOfFirst(core::SharingMethod sharing, std::span<const Load> loads) {
  std::vector<double> speeds(loads.size());
  Speeds({}, sharing, loads, speeds);
  return 1 / speeds.front();
}

std::string Cell(Figure figure, double value) {
  const FigureFacts& facts = FactsOf(figure);
  if (facts.change) return fmt::format("{:+.{}f} %", 100 * value, facts.digits);
  return fmt::format("{:.{}f}", value, facts.digits);
}

std::string Difference(const Comparison& row) {
  const FigureFacts& facts = FactsOf(row.figure);
  const double difference = row.simulated - row.published;
  if (facts.change) return fmt::format("{:+.1f} pt", 100 * difference);
  if (row.figure == kOomCrashes) return fmt::format("{:+.1f}", difference);
  return fmt::format("{:+.1f} %", 100 * difference / row.published);
}

}  // namespace

std::string_view PublishedTraceName(PublishedTrace trace) {
  return FactsOf(trace).name;
}

std::optional<PublishedTrace> RecognisePublished(std::span<const Arrival> arrivals) {
  if (arrivals.empty()) return std::nullopt;
  const double last_s = base::Seconds(arrivals.back().at - arrivals.front().at);
  for (const TraceFacts& each : kTraces) {
    if (each.tasks == arrivals.size() && std::abs(each.last_submission_s - last_s) < 2)
      return each.trace;
  }
  return std::nullopt;
}

std::string_view FigureName(Figure figure) {
  return FactsOf(figure).name;
}

std::vector<PublishedPolicy> PoliciesOf(PublishedTrace trace) {
  std::vector<PublishedPolicy> policies{kPolicies[0]};
  for (const PublishedPolicy& policy : kPolicies) {
    const bool published = std::ranges::any_of(kFigures, [&](const PublishedFigure& figure) {
      return figure.trace == trace && figure.policy == policy.label;
    });
    if (published && policy.label != policies.front().label) policies.push_back(policy);
  }
  return policies;
}

Result<RunOptions> OptionsOf(PublishedTrace trace, const PublishedPolicy& policy) {
  RunOptions options;
  options.policy.mapper = policy.mapper;
  options.policy.sm_cap.reset();
  if (policy.sm_cap > 0) options.policy.sm_cap = policy.sm_cap;
  options.policy.floor_mib = policy.floor_mib;
  options.policy.margin_mib = policy.margin_mib;
  options.estimates.source = policy.estimates;
  options.collocation = policy.collocation;
  return AsPublished(FactsOf(trace).era, std::move(options));
}

bool Comparison::Agrees() const {
  return (!from || simulated >= *from) && (!to || simulated <= *to);
}

bool Comparison::WithinNoise() const {
  return std::abs(simulated - published) <= 2 * deviation;
}

Result<std::vector<Comparison>> Validate(PublishedTrace trace, const Cluster& cluster,
                                         std::span<const Arrival> arrivals,
                                         const ValidationOptions& options) {
  const std::vector<PublishedPolicy> policies = PoliciesOf(trace);
  std::vector<RunOptions> rows;
  for (const PublishedPolicy& policy : policies) {
    rows.push_back(CARMA_TRY(OptionsOf(trace, policy)));
    rows.back().noise = options.noise;
    rows.back().seed = options.seed;
  }
  const int all = options.runs * static_cast<int>(rows.size());
  const auto done = [&](std::size_t finished) {
    if (options.progress) options.progress(static_cast<int>(finished), all);
  };
  const auto runs = CARMA_TRY(SimulateMatrix(cluster, arrivals, rows, options.runs, 0, done));
  std::vector<Comparison> comparisons;
  for (std::size_t i = 0; i < policies.size(); ++i) {
    for (const PublishedFigure& figure : kFigures) {
      if (figure.trace == trace && figure.policy == policies[i].label)
        comparisons.push_back(Compare(figure, runs[i], runs.front()));
    }
  }
  return comparisons;
}

std::vector<Comparison> ValidateModels() {
  std::vector<Comparison> rows;
  const auto add = [&rows](const PublishedFigure& figure, double simulated) {
    rows.push_back(OneValue(figure, simulated));
  };
  // 2, 3 and 7 copies of a network similar to ResNet on small images. Each copy alone has an SM
  // activity of 0.30.
  const Load small{.sm_active = 0.30, .sensitivity = 0.707, .pressure = 0.30 * 0.959};
  const std::vector<Load> many(7, small);
  const auto mps = [&](std::size_t n) {
    return SlowdownOfFirst(core::SharingMethod::kMps, {many.data(), n});
  };
  constexpr std::string_view kChapter4 = "chapter 4";
  add({{}, "7 small tasks, MPS", kSlowdown, 2.25, kChapter4, kPrediction, 2, 2.5}, mps(7));
  add({{}, "7 small tasks, MIG", kSlowdown, 2.25, kChapter4, kPrediction, 2, 2.5},
      1 / MigSpeed(FindMigProfile(7)->compute, small.sm_active));
  add({{}, "2 small tasks, MPS", kSlowdown, 1.0, kChapter4, kPrediction, {}, 1.25}, mps(2));
  // A recommender (SM activity 0.05) next to ResNet152 (0.82). The recommender's sensitivity and
  // pressure are not published; the values here were chosen for the comparison.
  const Load recommender{.sm_active = 0.05, .sensitivity = 0.05, .pressure = 0.05};
  const Load resnet{.sm_active = 0.82, .sensitivity = 0.707, .pressure = 0.82 * 0.959};
  const std::array pair{recommender, resnet};
  const std::array turned{resnet, recommender};
  constexpr std::string_view kTable = "table 4.2";
  add({{}, "recommender with ResNet152, MPS", kSlowdown, 1.039, kTable, kCalibration, 1.0, 1.1},
      SlowdownOfFirst(core::SharingMethod::kMps, pair));
  add({{}, "ResNet152 with recommender, MPS", kSlowdown, 1.048, kTable, kPrediction, 1.0, 1.1},
      SlowdownOfFirst(core::SharingMethod::kMps, turned));
  add({{}, "recommender with ResNet152, streams", kSlowdown, 1.136, kTable, kPrediction, 1.05, 1.2},
      SlowdownOfFirst(core::SharingMethod::kStreams, pair));
  add({{}, "ResNet152 with recommender, streams", kSlowdown, 1.057, kTable, kPrediction, 1.0, 1.2},
      SlowdownOfFirst(core::SharingMethod::kStreams, turned));
  // Power draw of one card of a DGX Station A100 at these SM activity levels.
  struct Drawn {
    double sm_active, low_w, high_w;
  };
  for (const Drawn& each : {Drawn{0, 56, 58},
                            {0.34, 156, 175},
                            {0.47, 200, 200},
                            {0.62, 214, 235},
                            {0.90, 266, 266},
                            {0.99, 272, 272}}) {
    const double middle_w = (each.low_w + each.high_w) / 2;
    const std::string name = fmt::format("one A100 at SM activity {:.2f}", each.sm_active);
    add({{}, name, kPowerW, middle_w, kCurves, kCalibration, each.low_w * 0.95, each.high_w * 1.05},
        PowerW({}, each.sm_active));
  }
  return rows;
}

std::string Table(std::span<const Comparison> comparisons) {
  std::string text =
      fmt::format("{:38}{:21}{:>11}{:>20}{:>11}  {:20}{:12}{}\n", "policy", "figure", "published",
                  "simulated", "difference", "asked for", "input?", "source");
  for (const Comparison& row : comparisons) {
    std::string simulated = Cell(row.figure, row.simulated);
    if (row.deviation > 0) {
      const FigureFacts& facts = FactsOf(row.figure);
      simulated +=
          fmt::format(" ± {:.{}f}", (facts.change ? 100 : 1) * row.deviation, facts.digits);
    }
    std::string asked = row.WithinNoise() ? "within noise" : "";
    if (row.from || row.to) {
      asked = fmt::format("{} {}..{}", row.Agrees() ? "ok" : "NO",
                          row.from ? Cell(row.figure, *row.from) : "",
                          row.to ? Cell(row.figure, *row.to) : "");
    }
    // "±" has two bytes but takes one column.
    const int width = 20 + (row.deviation > 0 ? 1 : 0);
    text += fmt::format("{:38}{:21}{:>11}{:>{}}{:>11}  {:20}{:12}{}\n", row.policy,
                        FigureName(row.figure), Cell(row.figure, row.published), simulated, width,
                        Difference(row), asked,
                        row.standing == kCalibration ? "calibration" : "prediction", row.source);
  }
  return text;
}

}  // namespace carma::sim
