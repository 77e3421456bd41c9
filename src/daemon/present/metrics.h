// Writes metrics for Prometheus: gauges for the current state, and counters since the daemon
// started.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/gpu_view.h"
#include "api/metrics.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"
#include "daemon/loop/configuration.h"
#include "store/store.h"
#include "task/lease/lease_launcher.h"

namespace carma::daemon {

struct Counters {
  std::uint64_t dispatches = 0;
  std::uint64_t ooms = 0;
  std::map<std::string, std::uint64_t> ended;  // by state name
  api::Histogram turn_seconds{{1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1, 5}};
  api::Histogram loop_late_seconds{{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5}};
  double longest_turn_s = 0;  // longest loop delay
  api::Histogram wait_seconds{{1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}};
  std::map<std::string, std::uint64_t> estimates;  // by method; "none": no estimate was possible
  api::Histogram estimate_seconds{{1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 1, 10}};
  std::map<std::string, api::Histogram> estimate_error;  // measured / predicted, by method
  // Predicted and measured values of tasks (report/forecast.h), by quantity and method.
  struct Forecasts {
    api::Histogram ratio{{0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0}};
    std::uint64_t kept = 0;    // tasks that used no more than promised
    std::uint64_t broken = 0;  // tasks that used more
  };
  std::map<std::pair<std::string, std::string>, Forecasts> forecasts;

  // Counts a task change that has become durable.
  void Count(const core::TaskRecord& record);
  void Count(const EstimateResult& result);
  // Counts one measurement of the LoopMeter.
  void CountLate(double late_s);
};

// engine and monitor: null until they exist.
std::string MetricsText(Engine* engine, const Monitor* monitor, store::Store& store,
                        const Counters& counters, const Configuration& configuration,
                        base::Time now, const std::string& version);

// The numbers of waiting, granted and adopted leases (docs/use/leases.md).
std::string LeaseMetricsText(const task::LeaseLauncher& leases);

// Memory and activity of each task on each of its GPUs. Separate from MetricsText(), because each
// task adds new time series, which not every Prometheus server should store.
std::string TaskMetricsText(const std::vector<api::GpuView>& gpus);

}  // namespace carma::daemon
