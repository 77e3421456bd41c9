#include "lab/sim/matrix.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <thread>

#include "base/try.h"
#include "lab/sim/bounds.h"
#include "report/tally.h"

namespace carma::sim {
namespace {

// Calls work(0) … work(count - 1) once each on up to `threads` threads (0 means one per core),
// including the caller's. Returns when all calls have returned.
void ForEachIndex(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const unsigned most =
      threads > 0 ? static_cast<unsigned>(threads) : std::thread::hardware_concurrency();
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min<std::size_t>(count, most); ++i) others.emplace_back(take);
  take();
}

// Task times come from the tally, GPU figures from the simulator's exact integrals.
report::Metrics MetricsOf(const Cluster& cluster, const report::Tally& tally, const Totals& totals,
                          const Above& above) {
  report::Metrics metrics = tally.Finish();
  metrics.simulated = true;
  for (const ServerShape& server : cluster.servers)
    metrics.gpus += static_cast<int>(server.gpus.size());
  metrics.memory_used_mib = totals.memory_mib;
  metrics.sm_active = totals.sm_active;
  metrics.energy_mj = totals.energy_j / 1e6;
  if (totals.makespan_s > 0) metrics.power_w = totals.energy_j / totals.makespan_s;
  metrics.gpu_coverage = 1;
  if (above.placing != Placing::kQueue) metrics.requeues = totals.requeues;
  return metrics;
}

// True if two policies have the same bounds. Only the bound for a slowdown limit depends on the
// sharing method.
bool ShareBounds(const RunOptions& a, const RunOptions& b) {
  return a.memory.load == b.memory.load && a.memory.first_share == b.memory.first_share &&
         a.slowdown_limit == b.slowdown_limit &&
         (a.slowdown_limit == 0 ||
          (a.collocation == b.collocation && a.interference == b.interference));
}

// Computing bounds is slow for a long trace, so policies with the same bounds share them.
std::vector<std::vector<report::Bound>> BoundsOfAll(const Cluster& cluster,
                                                    std::span<const Arrival> arrivals,
                                                    std::span<const RunOptions> policies) {
  std::vector<std::vector<report::Bound>> bounds;
  for (const RunOptions& policy : policies) {
    const auto like = std::find_if(policies.begin(), policies.begin() + std::ssize(bounds),
                                   [&](const RunOptions& b) { return ShareBounds(policy, b); });
    const auto at = static_cast<std::size_t>(like - policies.begin());
    bounds.push_back(at < bounds.size() ? bounds[at] : BoundsOf(cluster, arrivals, policy));
  }
  return bounds;
}

struct OneRun {
  report::Metrics metrics;  // without bounds
  RunResult result;
};

Result<OneRun> RunOne(const Cluster& cluster, std::span<const Arrival> arrivals,
                      RunOptions options) {
  report::Tally tally;
  options.on_task = [&](const report::RunTask& task) { tally.Add(report::OutcomeOf(task)); };
  RunResult result = CARMA_TRY(Simulate(cluster, arrivals, options));
  report::Metrics metrics = MetricsOf(cluster, tally, result.totals, options.above);
  return OneRun{std::move(metrics), std::move(result)};
}

}  // namespace

Result<std::vector<std::vector<report::Metrics>>> SimulateMatrix(
    const Cluster& cluster, std::span<const Arrival> arrivals, std::span<const RunOptions> policies,
    int runs, int threads, const std::function<void(std::size_t)>& done) {
  if (runs < 1) return Invalid("expected at least one run");
  // Checks every policy before running any, so an invalid one is reported right away.
  for (const RunOptions& policy : policies) CARMA_TRY(CheckRun(cluster, arrivals, policy));
  const std::vector<std::vector<report::Bound>> bounds = BoundsOfAll(cluster, arrivals, policies);
  const auto each = static_cast<std::size_t>(runs);
  std::vector<std::vector<report::Metrics>> table(policies.size(),
                                                  std::vector<report::Metrics>(each));
  std::vector<Result<Unit>> ends(policies.size() * each, Unit{});
  std::mutex mutex;
  std::size_t finished = 0;
  std::atomic<bool> failed{false};
  ForEachIndex(ends.size(), threads, [&](std::size_t i) {
    const std::size_t policy = i / each;
    const std::size_t first = i % each;
    // If a policy carries its history over, each of its runs depends on the one before, so a single
    // call does them all in order.
    const bool chained = policies[policy].estimates.carries;
    if (chained && first > 0) return;
    RunOptions options = policies[policy];
    options.record = false;
    options.seed += first;
    for (std::size_t run = first; run < (chained ? each : first + 1) && !failed; ++run) {
      Result<OneRun> one = RunOne(cluster, arrivals, options);
      if (!one) {
        ends[i] = std::unexpected(one.error());
        failed = true;
        return;
      }
      table[policy][run] = std::move(one->metrics);
      table[policy][run].bounds = bounds[policy];
      ++options.seed;
      options.estimates.taught =
          std::make_shared<const std::vector<task::Observation>>(std::move(one->result.taught));
      if (!done) continue;
      const std::lock_guard lock(mutex);
      done(++finished);
    }
  });
  for (Result<Unit>& end : ends) {
    if (!end) return std::unexpected(end.error());
  }
  return table;
}

Result<report::Report> SimulateRecorded(const Cluster& cluster, std::span<const Arrival> arrivals,
                                        RunOptions policy) {
  policy.record = true;
  OneRun one = CARMA_TRY(RunOne(cluster, arrivals, policy));
  report::Report report{.metrics = std::move(one.metrics), .run = std::move(one.result.record)};
  report.metrics.bounds = BoundsOf(cluster, arrivals, policy);
  report.run->bounds = report.metrics.bounds;
  return report;
}

}  // namespace carma::sim
