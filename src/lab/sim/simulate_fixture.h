// Loads and servers for tests of simulated runs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "lab/sim/simulate.h"
#include "report/metrics.h"

namespace carma::sim {

inline trace::Workload MakeWorkload(std::string id, int gpus, double solo_s, double u,
                                    std::int64_t mib) {
  trace::Workload workload{.id = std::move(id), .gpus = gpus, .solo_s = solo_s};
  workload.sm_active.assign(static_cast<std::size_t>(gpus), u);
  workload.memory_mib.assign(static_cast<std::size_t>(gpus), mib);
  workload.mps_sensitivity = 0.5;
  workload.mps_pressure = u;
  return workload;
}

inline Cluster MakeWorld(std::string_view text) {
  return *ParseCluster(text);
}

inline RunOptions Immediate() {
  RunOptions options;
  options.policy.sm_cap.reset();
  options.policy.settle = false;
  options.policy.margin_mib = 0;
  options.estimates.source = "oracle";
  options.record = true;
  return options;
}

inline RunResult Play(const Cluster& cluster, const std::vector<Arrival>& arrivals,
                      const RunOptions& options) {
  Result<RunResult> result = Simulate(cluster, arrivals, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *std::move(result) : RunResult{};
}

// The run must have a record.
inline report::Metrics MeasuresOf(const RunResult& run) {
  return report::Compute(*run.record);
}

// The built-in trace with the built-in catalogue.
class Demo {
 public:
  Demo() : catalogue_(*trace::Catalogue::BuiltIn()), trace_(*trace::BuiltInDemo60()) {
    arrivals_ = *Arrivals(trace_, catalogue_, "demo60");
  }
  const std::vector<Arrival>& arrivals() const { return arrivals_; }

 private:
  trace::Catalogue catalogue_;
  trace::TaskTrace trace_;
  std::vector<Arrival> arrivals_;
};

// A load that causes queueing and retries, and includes tasks on two GPUs.
inline std::vector<Arrival> Crowd(const std::vector<trace::Workload>& workloads, int tasks) {
  base::Rng rng(11);
  std::vector<Arrival> arrivals;
  base::Duration at{0};
  for (int i = 0; i < tasks; ++i) {
    at += base::Duration(static_cast<std::int64_t>(rng.Exponential(30'000)));
    const trace::Workload& workload = workloads[rng.Below(workloads.size())];
    arrivals.push_back({at, &workload, 60 + rng.Exponential(600)});
  }
  return arrivals;
}

inline std::vector<trace::Workload> Mixed() {
  std::vector<trace::Workload> workloads{
      MakeWorkload("small", 1, 300, 0.3, 4'000), MakeWorkload("large", 1, 900, 0.9, 26'000),
      MakeWorkload("two", 2, 600, 0.6, 15'000), MakeWorkload("medium", 1, 500, 0.6, 12'000)};
  return workloads;
}

inline bool SameTasks(const report::RunRecord& a, const report::RunRecord& b) {
  return a.from == b.from && a.to == b.to && a.tasks == b.tasks;
}

}  // namespace carma::sim
