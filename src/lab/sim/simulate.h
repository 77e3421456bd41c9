// The discrete-event simulator, which runs a load on simulated servers. It drives carmad's own
// scheduler (core/scheduler/scheduler.h) and models only the world around it: memory, speed, power,
// monitor readings, estimates. docs/inside/simulator.md describes the models and their evidence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/policy/policy.h"
#include "core/scheduler/scheduler.h"
#include "core/values/reservation.h"
#include "estimate/asking.h"
#include "lab/sim/above.h"
#include "lab/sim/gpu_types.h"
#include "lab/sim/models.h"
#include "lab/trace/task_trace.h"
#include "lab/trace/workloads.h"
#include "report/run.h"
#include "task/verdict/observation.h"

namespace carma::sim {

// ---- the cluster ----

struct ServerShape {
  std::string name;  // "dgx-station-a100", "node 3"
  std::vector<GpuType> gpus;
};
// A single server runs as it would under carmad. Several servers, or one server under Slurm, get
// their tasks from a common queue (above.h).
struct Cluster {
  std::vector<ServerShape> servers;
};

inline constexpr std::size_t kMaxServers = 4096;

// Parses a server name such as "dgx-station-a100" (ServerNames()), a shape
// ("4xA100-40GB,2xH100-80GB"), or several servers ("125 * dgx-a100", "2 * 4xV100-16GB + dgx-h100").
// Returns kInvalid for an unknown name or type, no GPUs, or more than kMaxServers servers.
Result<Cluster> ParseCluster(std::string_view text);
// Names and shapes of the known servers, for the help text.
struct ServerName {
  std::string_view name;
  std::string_view shape;
};
std::span<const ServerName> ServerNames();

// ---- the load ----

// One task of the trace. The workload must outlive the run.
struct Arrival {
  base::Duration at{};  // counted from the trace's start, in ascending order
  const trace::Workload* workload = nullptr;
  std::optional<double> solo_s;     // solo duration; empty: the workload's
  int line = 0;                     // line in the trace file, for messages; 0: not from a file
  std::string user = {};            // empty: unknown
  std::optional<double> cpus = {};  // empty: the workload's
  std::string gpu_type = {};        // the only GPU model that the task may use; empty: any
  std::string qos = {};             // one of PolicyConfig::classes; empty: the default class
  std::string account = {};         // an account that the user may use; empty: none
};
// Returns kInvalid "path:7: …" for a workload that is not in the catalogue or cannot be replayed.
Result<std::vector<Arrival>> Arrivals(const trace::TaskTrace& trace,
                                      const trace::Catalogue& catalogue, std::string_view path);

// ---- options of a run ----

// Model summaries by workload name, as users would submit them with their tasks.
using Summaries = std::map<std::string, estimate::Summary>;

// How peak memory is estimated: by an estimator of `carma estimate`, or from values given in
// advance. As in carmad, at most the largest GPU's memory is promised for a predicted peak. (A
// value with random errors counts as predicted.) Only a peak specified by the user can be too large
// for the server.
struct EstimateOptions {
  std::string_view source = "none";  // for trace::ParseEstimateSource; only used without a method

  // Name from estimate::Estimators(), or empty to use `source`. As in carmad, the estimator is
  // asked at each submission. All servers share what it learns from finished tasks (predictions.h).
  std::string method;
  double coverage = 0.9;  // coverage of the promised upper bounds; 0: promise the point estimate
  std::shared_ptr<const Summaries> summaries;  // null: no summaries
  bool learns = true;                          // learn from finished tasks
  // Observations from earlier runs, oldest first (RunResult::taught); null if there are none.
  std::shared_ptr<const std::vector<task::Observation>> taught;
  // In SimulateMatrix, each run starts with the observations of the runs before it.
  bool carries = false;

  // What is known in advance about the GPU use of tasks.
  enum class Profiles {
    kNone,      // nothing
    kActivity,  // SM activity and traits, from which sensitivity and pressure are guessed
    kMeasured,  // everything that the catalogue has
  };
  Profiles profiles = Profiles::kNone;
  bool durations = false;  // whether tasks' solo run times are known
  // Random errors in the values known in advance. Each value is multiplied by exp(N(0, sigma)),
  // with a new draw for each task.
  double activity_sigma = 0;
  double slowdown_sigma = 0;  // for sensitivity and pressure
  double duration_sigma = 0;

  // Random errors of the memory estimates. Each task's estimate is multiplied by exp(N(bias,
  // sigma)). A fraction missing_share of the tasks gets no estimate. Peaks measured in earlier runs
  // have no error.
  double bias = 0;
  double sigma = 0;
  double missing_share = 0;
  base::Duration takes{0};
};

// How the monitor takes samples for the scheduler.
struct MonitorOptions {
  enum class Mode {
    // Takes only the samples that can change a decision. The results are the same as with
    // kPeriodic, but the run is faster.
    kOnDemand,
    kPeriodic,  // every sample of every GPU, as carmad's monitor does
    // Takes no samples, so decisions are based on claims alone and the policy's SM cap and settling
    // do not apply.
    kNone,
  };
  Mode mode = Mode::kOnDemand;
  base::Duration period{1'000};
  base::Duration window{60'000};
  base::Duration delay{0};  // time from the reading to its arrival at the core
};

// A task's actual start and the start that the core had expected.
struct ToldStart {
  base::Time submitted{};
  base::Time started{};
  core::ExpectedStart told;
};

struct RunOptions {
  core::PolicyConfig policy;  // core::AsPublished sets the original system's loops
  // kAlone: one task per GPU, regardless of the policy's mapper. kMig: every GPU is divided into
  // equal instances, which the policy treats as GPUs. An instance takes only one-GPU tasks, and
  // only one at a time unless PolicyConfig::share_mig is set.
  core::SharingMethod collocation = core::SharingMethod::kMps;
  int mig_instances = 7;  // for kMig: 1, 2, 3 or 7 per GPU (gpu_types.h)
  EstimateOptions estimates;
  MonitorOptions monitor;
  Above above;
  // Reservations on each server (reservation_words.h). Times are relative to the first submission,
  // and Simulate assigns the IDs.
  std::vector<core::Reservation> reservations;

  // With kMps: a task runs out of memory if it needs more than its promised memory plus the
  // policy's margin, even if the GPU has memory left (as with collocation.mps_memory_limit).
  // Applies only to tasks whose MPS server has a single GPU.
  bool mps_memory_limit = false;

  MemoryModel memory;
  Interference interference;
  HostContention host;
  Failures failures;
  Checkpoints checkpoints;
  Stopping stopping;
  ShownProgress progress;
  // Length of a time slice; 0 disables time slices. After one time slice, a task is requeued as if
  // by `carma requeue`, behind tasks that have had fewer time slices. It keeps running if no task
  // is waiting, or if stopping it would lose all its work.
  base::Duration time_slot{0};

  int max_recoveries = 3;  // per task; the published versions have no limit
  // Perturbs the run: each task's solo time is multiplied by exp(N(0, noise)), and the first
  // submission comes at a random time after the daemon starts.
  double noise = 0;
  std::uint64_t seed = 1;

  // Maximum slowdown of tasks; 0 means no limit. Used only by BoundsOf (bounds.h).
  double slowdown_limit = 0;

  // Records every task and the series of every GPU in RunResult::record. Without it, memory usage
  // does not grow with the length of the trace.
  bool record = false;
  std::size_t points_per_gpu =
      4'000;  // maximum number of points in a series; longer series are averaged over time
  // Called when each task ends, so statistics can be computed without recording the run.
  std::function<void(const report::RunTask&)> on_task;
  // Called at the first start of each task that had to wait, with the start time that was expected
  // at submission. Only allowed with one server and immediate estimates.
  std::function<void(const ToldStart&)> on_start;
};
// Returns `options` with the settings of a published version of the original system: the policy of
// core::AsPublished, unlimited retries, a whole GPU for each task without an estimate, and the
// monitor's window (92 s, not overlapping; v2: 30 s, rolling). Returns the errors of
// core::AsPublished.
Result<RunOptions> AsPublished(std::string_view era, RunOptions options);

// ---- the results ----

// Exact means and sums over the run, as defined in docs/server/metrics.md. The run lasts from the
// first submission to the end of the last task.
struct Totals {
  std::int64_t tasks = 0;
  std::int64_t succeeded = 0;
  std::int64_t rejected = 0;  // tasks that could never fit
  std::int64_t failed = 0;    // tasks that failed for another reason
  std::int64_t attempts = 0;
  std::int64_t oom_crashes = 0;
  std::int64_t requeues = 0;  // number of times that tasks were sent back to the common queue
  double makespan_s = 0;
  double energy_j = 0;    // sum over all GPUs
  double sm_active = 0;   // mean per GPU, 0..1
  double memory_mib = 0;  // mean per GPU
  // Task events and samples that the simulator processed. Mode::kOnDemand and Mode::kPeriodic give
  // the same totals except for the number of samples.
  std::int64_t task_events = 0;
  std::int64_t samples = 0;
  friend bool operator==(const Totals&, const Totals&) = default;
};

struct RunResult {
  Totals totals;
  std::optional<report::RunRecord> record;  // the caller sets the label and provenance
  // All observations at the end of the run, including those from earlier runs; empty without an
  // estimator (EstimateOptions::method).
  std::vector<task::Observation> taught;
};

// Checks the input of a run. Returns kInvalid if
// - options are out of range (number ranges are checked when options are parsed),
// - a task needs more GPUs than all servers of one kind have together (with Placing::kQueue: than
//   the largest server has), as in "line 7 (bert-8gpu): needs 8 GPUs, but the largest server has
//   4",
// - a task has a class or an account that the policy does not allow,
// - arrivals are not in chronological order, or
// - reservations cannot all get their GPUs.
Result<Unit> CheckRun(const Cluster& cluster, std::span<const Arrival> arrivals,
                      const RunOptions& options);

// A pure function: identical arguments give byte-identical results on any machine and thread.
// Aborts if the simulator has a bug: at the end, every task must have ended exactly once, no claims
// may remain, and all GPUs must be empty. Returns the errors of CheckRun, and kInvalid if
// reservations leave tasks no time to run.
Result<RunResult> Simulate(const Cluster& cluster, std::span<const Arrival> arrivals,
                           const RunOptions& options);

}  // namespace carma::sim
