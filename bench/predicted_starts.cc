// Measures how accurate the expected starts of waiting tasks are (ExpectedStart::likely). Compares
// the start shown at submission with the actual start, over random loads. Usage: predicted_starts
// [RULES [SEEDS]] uses only the rules whose name begins with RULES, and SEEDS loads (default: 5). A
// third argument also shows how much of the error is due to later submissions, which cannot be
// predicted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "lab/sim/simulate.h"

namespace carma::sim {
namespace {

using base::Duration;

constexpr int kTasks = 300;
constexpr double kMeanSoloS = 3'600;
constexpr int kGpus = 4;

// Random tasks with an offered load of `offered`: with one task per GPU, they would need `offered`
// times as many GPUs.
std::vector<Arrival> RandomTasks(const trace::Catalogue& catalogue, double offered,
                                 std::uint64_t seed) {
  std::vector<const trace::Workload*> some;
  for (const auto& [id, workload] : catalogue.workloads()) {
    if (workload.gpus <= 2) some.push_back(&workload);
  }
  base::Rng rng(seed);
  std::vector<Arrival> arrivals;
  double at_s = 0;
  while (arrivals.size() < kTasks) {
    const trace::Workload& workload = *some[rng.Below(some.size())];
    // Few tasks are long, as on any real server.
    const double solo_s = std::min(86'400.0, kMeanSoloS * std::exp(1.3 * rng.Normal() - 0.845));
    at_s += rng.Exponential(solo_s * workload.gpus / (offered * kGpus));
    arrivals.push_back({Duration(static_cast<std::int64_t>(at_s * 1000)), &workload, solo_s});
  }
  return arrivals;
}

double Percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

struct Case {
  std::string name;
  core::PolicyConfig policy;
};

void Print(const Case& each, const trace::Catalogue& catalogue, const Cluster& cluster,
           double offered, double sigma, double shown, std::uint64_t seeds) {
  std::vector<double> errors_min, early, waits_min;
  int untold = 0;
  double near = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    RunOptions options{.policy = each.policy};
    options.estimates.source = "oracle";
    options.estimates.profiles = EstimateOptions::Profiles::kActivity;
    options.estimates.durations = true;
    options.estimates.duration_sigma = sigma;
    options.seed = seed;
    options.progress.share = shown;
    options.on_start = [&](const ToldStart& start) {
      if (!start.told.likely) {
        ++untold;
        return;
      }
      const double wait_s = base::Seconds(start.started - start.submitted);
      const double off_s = base::Seconds(*start.told.likely - start.started);
      waits_min.push_back(wait_s / 60);
      errors_min.push_back(std::abs(off_s) / 60);
      early.push_back(off_s / 60);
      near += std::abs(off_s) <= std::max(600.0, 0.25 * wait_s) ? 1 : 0;
    };
    const auto run = Simulate(cluster, RandomTasks(catalogue, offered, seed), options);
    if (!run) {
      fmt::print(stderr, "predicted_starts: {}\n", run.error().message);
      std::exit(1);
    }
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, waits_min.size()));
  double wait = 0, error = 0;
  for (const double one : waits_min) wait += one / count;
  for (const double one : errors_min) error += one / count;
  fmt::print(
      "| {} | {} | {} | {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} to {:.0f} | {:.0f} % |\n",
      each.name, offered, sigma, shown, waits_min.size(), untold, wait, error,
      Percentile(errors_min, 0.5), Percentile(early, 0.1), Percentile(early, 0.9),
      100 * near / count);
}

struct Start {
  double told_min = 0;  // from the submission to the expected start
  double real_min = 0;
};
// The starts of tasks that waited, by submission time relative to the first submission.
std::map<std::int64_t, Start> StartsOf(const core::PolicyConfig& policy, const Cluster& cluster,
                                       const std::vector<Arrival>& arrivals, std::uint64_t seed) {
  std::map<std::int64_t, Start> starts;
  RunOptions options{.policy = policy};
  options.estimates.source = "oracle";
  options.estimates.profiles = EstimateOptions::Profiles::kActivity;
  options.estimates.durations = true;
  options.seed = seed;
  options.on_start = [&](const ToldStart& start) {
    if (!start.told.likely) return;
    starts[base::ToMs(start.submitted)] = {base::Seconds(*start.told.likely - start.submitted) / 60,
                                           base::Seconds(start.started - start.submitted) / 60};
  };
  if (!Simulate(cluster, arrivals, options)) std::exit(1);
  return starts;
}

// For every tenth task, repeats the load without the tasks submitted after it. The task's start is
// then what the rules predict from everything known at its submission, including run times.
void PrintWithoutLater(const Case& each, const trace::Catalogue& catalogue, const Cluster& cluster,
                       double offered, std::uint64_t seeds) {
  std::vector<double> told_real, told_alone, alone_real;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const std::vector<Arrival> all = RandomTasks(catalogue, offered, seed);
    const auto with_later = StartsOf(each.policy, cluster, all, seed);
    for (std::size_t last = 9; last < all.size(); last += 10) {
      const auto real = with_later.find((all[last].at - all.front().at).count());
      if (real == with_later.end()) continue;  // the task did not wait
      const std::vector<Arrival> until(all.begin(),
                                       all.begin() + static_cast<std::ptrdiff_t>(last) + 1);
      const auto without = StartsOf(each.policy, cluster, until, seed);
      const auto alone = without.find(real->first);
      if (alone == without.end()) continue;
      told_real.push_back(std::abs(real->second.told_min - real->second.real_min));
      told_alone.push_back(std::abs(alone->second.told_min - alone->second.real_min));
      alone_real.push_back(std::abs(alone->second.real_min - real->second.real_min));
    }
  }
  fmt::print("| {} | {} | {}", each.name, offered, told_real.size());
  for (std::vector<double>* off : {&told_real, &told_alone, &alone_real}) {
    double mean = 0;
    for (const double one : *off) mean += one / static_cast<double>(off->size());
    fmt::print(" | {:.0f} | {:.0f}", mean, Percentile(*off, 0.5));
  }
  fmt::print(" |\n");
}

}  // namespace
}  // namespace carma::sim

int main(int argc, char** argv) {
  using namespace carma;
  const std::string rules = argc > 1 ? argv[1] : "";
  const std::uint64_t seeds = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 5;
  const auto catalogue = trace::Catalogue::BuiltIn();
  const auto cluster = sim::ParseCluster("4xA100-40GB");
  if (!catalogue || !cluster) return 1;
  core::PolicyConfig usual;
  usual.limits.clear();
  std::vector<sim::Case> cases{{"exclusive", usual},          {"exclusive, backfill=100", usual},
                               {"exclusive, fair", usual},    {"magm", usual},
                               {"magm, backfill=100", usual}, {"by-work, backfill=1000", usual}};
  for (int i = 0; i < 3; ++i)
    cases[static_cast<std::size_t>(i)].policy.mapper = core::kNeverSharing;
  cases[1].policy.backfill = 100;
  cases[2].policy.order = core::QueueOrder::kFair;
  cases[4].policy.backfill = 100;
  cases[5].policy.mapper = "by-work";
  cases[5].policy.backfill = 1000;
  cases[5].policy.min_gain = 0.06;
  if (argc > 3) {
    fmt::print(
        "| rules | load | tasks | predicted vs. actual start: mean error, min | median | "
        "predicted start vs. start without later tasks: mean | median | "
        "start without vs. with later tasks: mean | median |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
    for (const sim::Case& each : cases) {
      for (const double offered : {0.9, 1.5}) {
        if (each.name.starts_with(rules))
          sim::PrintWithoutLater(each, *catalogue, *cluster, offered, seeds);
      }
    }
    return 0;
  }
  fmt::print(
      "| rules | load | run times off by | share with progress | predicted | not predicted | "
      "mean wait, min | mean error | median error | 80 % of errors (predicted - actual) | "
      "within 25 % of the wait or 10 min |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const sim::Case& each : cases) {
    if (!each.name.starts_with(rules)) continue;
    for (const double offered : {0.9, 1.5}) {
      sim::Print(each, *catalogue, *cluster, offered, 0, 0, seeds);
      for (const double shown : {0.0, 0.5, 1.0})
        sim::Print(each, *catalogue, *cluster, offered, 0.5, shown, seeds);
    }
  }
  return 0;
}
