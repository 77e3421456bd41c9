// The discrete-event simulator: what would these servers have done with that load? It drives the
// very core of carmad (core/scheduler.h) and models only the world around it: memory, speed,
// power, what the monitor sees, what an estimator says. docs/inside/simulator.md has the models and
// their evidence.
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
#include "lab/sim/memory_model.h"
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
// One server is run as carmad runs it. Several stand below a queue of the cluster (above.h), and
// so does one that Slurm places on.
struct Cluster {
  std::vector<ServerShape> servers;
};

inline constexpr std::size_t kMaxServers = 4096;

// "dgx-station-a100" (or another name of ServerNames()), a shape ("4xA100-40GB,2xH100-80GB"), or
// several servers: "125 * dgx-a100", "2 * 4xV100-16GB + dgx-h100".
// Errors: kInvalid: an unknown name or type, no GPU, more than kMaxServers servers.
base::Result<Cluster> ParseCluster(std::string_view text);
// Known servers with their shapes, for help texts.
struct ServerName {
  std::string_view name;
  std::string_view shape;
};
std::span<const ServerName> ServerNames();

// ---- the load ----

// One task of the trace. The workload must outlive the run.
struct Arrival {
  base::Duration at{};  // since the trace's start, not before the previous one
  const trace::Workload* workload = nullptr;
  std::optional<double> solo_s;     // instead of the workload's
  int line = 0;                     // in the trace file, for messages; 0: from no file
  std::string user = {};            // empty: not told
  std::optional<double> cpus = {};  // instead of the workload's
  std::string gpu_type = {};        // only GPUs of that model; empty: any
  std::string qos = {};             // one of PolicyConfig::classes; empty: the usual one
  std::string account = {};         // one that its user may name; empty: his own
};
// Errors: kInvalid "path: line 7: …" for a workload that the catalogue does not have or cannot
// replay.
base::Result<std::vector<Arrival>> Arrivals(const trace::TaskTrace& trace,
                                            const trace::Catalogue& catalogue,
                                            std::string_view path);

// ---- how it is run ----

// How a run lets tasks share a GPU: "exclusive" (kAlone: one task per GPU, the mapper is that one
// whatever the policy says), "streams", "mps", "mig" (every GPU is cut into equal instances, which
// the policy sees as GPUs: for tasks of one GPU, one at a time unless PolicyConfig::share_mig).
std::optional<core::SharingMethod> ParseCollocation(std::string_view name);
std::string_view CollocationName(core::SharingMethod method);

// The model summaries that submitters name, by workload.
using Summaries = std::map<std::string, estimate::Summary>;

// What the estimator says about a task's peak: an estimator of `carma estimate` as carmad has it,
// or one whose answers are known beforehand.
struct EstimateOptions {
  std::string_view source = "none";  // trace::ParseEstimateSource; counts without a method

  // One of estimate::Estimators(), asked as carmad asks it: at each submission, with what finished
  // tasks of this run have taught by then (appraisals.h). All servers share what they learn. Empty:
  // `source`.
  std::string method;
  double coverage = 0.9;                       // of the bounds that are promised; 0: the point
  std::shared_ptr<const Summaries> summaries;  // null: nobody names one
  bool learns = true;                          // finished tasks teach
  // What was taught before this run, oldest first (RunResult::taught); null: its first day.
  std::shared_ptr<const std::vector<task::Observation>> taught;
  // In SimulateMatrix: each run starts with what the runs before it taught.
  bool carries = false;

  // What is known beforehand of how tasks use a GPU, and for how long.
  enum class Profiles {
    kNone,      // nothing
    kActivity,  // SM activity and traits; what they mind is guessed from it
    kMeasured,  // all that the catalogue has
  };
  Profiles profiles = Profiles::kNone;
  bool durations = false;  // run times alone
  // Random errors of that knowledge: each value times exp(N(0, sigma)), drawn for each task.
  double activity_sigma = 0;
  double slowdown_sigma = 0;  // of sensitivity and of pressure
  double duration_sigma = 0;

  // A random error on top: the estimate times exp(N(bias, sigma)), drawn for each task; and for
  // this share of the tasks none at all. What was measured in earlier runs has no error.
  double bias = 0;
  double sigma = 0;
  double missing_share = 0;
  base::Duration takes{0};
  // Whatever is predicted (by a method, or with an error) promises no more than the largest GPU
  // has, as in the daemon: only a peak that is stated can be too large for the server.
};

// What the monitor tells the core, and when.
struct MonitorOptions {
  enum class Mode {
    // Only the samples that can change a decision are made: the same run as kPeriodic, faster.
    kOnDemand,
    kPeriodic,  // every sample of every GPU, as carmad's monitor does
    // No samples at all: decisions on claims alone. The policy's SM cap and settling do not apply.
    kNone,
  };
  Mode mode = Mode::kOnDemand;
  base::Duration period{1'000};
  base::Duration window{60'000};
  base::Duration delay{0};  // from the reading to its arrival at the core
};

// When a task started, and when the core expected it to.
struct ToldStart {
  base::Time submitted{};
  base::Time started{};
  core::ExpectedStart told;
};

struct RunOptions {
  core::PolicyConfig policy;  // core::AsPublished for the original's loops
  core::SharingMethod collocation = core::SharingMethod::kMps;
  int mig_instances = 7;  // kMig: 1, 2, 3 or 7 per GPU (mig.h)
  EstimateOptions estimates;
  MonitorOptions monitor;
  Above above;
  // Of each server, from the first submission on (booking_words.h); their numbers are given here.
  std::vector<core::Reservation> reservations;

  // With kMps: no task may hold more than it was promised and the policy's margin, as
  // collocation.mps_memory_limit; who needs more runs out of memory though the GPU has some.
  bool mps_memory_limit = false;

  MemoryModel memory;
  Interference interference;
  HostContention host;
  Failures failures;
  Checkpoints checkpoints;
  Stopping stopping;
  // Option: time slots, as an administrator might hand them out with `carma requeue`. A task that
  // has run for one while others wait is sent back to the queue, behind those that had fewer; it
  // runs on if nobody waits, or if it has kept nothing of its work since it started. 0: none.
  base::Duration time_slot{0};

  int max_recoveries = 3;  // of each task; as published there is no end to them
  // Perturbation: each task's solo time times exp(N(0, noise)), and a random moment between the
  // start of the daemon and the first submission.
  double noise = 0;
  std::uint64_t seed = 1;

  // Of BoundsOf alone (bounds.h): tasks may take at most so many times as long as alone; 0: no
  // limit.
  double slowdown_limit = 0;

  // Keeps every task and the series of every GPU in RunResult::record. Without it memory does not
  // grow with the length of the trace.
  bool record = false;
  std::size_t points_per_gpu =
      4'000;  // series are thinned to at most so many, by time-weighted means
  // Told about each task at its end, in order of ends; for streaming accumulators.
  std::function<void(const report::RunTask&)> on_task;
  // Told about each task that had to wait, at its first start: what was expected of it when it was
  // submitted. Of one server, where estimates take no time.
  std::function<void(const ToldStart&)> on_start;
};
// The settings that belong to an era of the original: core::AsPublished, the window of its monitor
// (92 s, not overlapping; v2: 30 s, rolling), retries without end, a task without estimate on the
// whole GPU. Errors: those of core::AsPublished.
base::Result<RunOptions> AsPublished(std::string_view era, RunOptions base);

// ---- what came out ----

// Means and sums over the run, in the definitions of docs/server/metrics.md; exact, not sampled.
// The run lasts from the first submission to the last end.
struct Totals {
  std::int64_t tasks = 0;
  std::int64_t succeeded = 0;
  std::int64_t rejected = 0;  // could never fit
  std::int64_t failed = 0;    // ended otherwise
  std::int64_t attempts = 0;
  std::int64_t oom_crashes = 0;
  std::int64_t requeues = 0;  // tasks sent back above the servers
  double makespan_s = 0;
  double waiting_s = 0;    // mean over executed tasks, as the next three
  double execution_s = 0;  // launch to end, all attempts
  double jct_s = 0;
  // Of the successful attempts: first allocation to end over the time that their work takes alone.
  double slowdown = 0;
  double energy_j = 0;    // all GPUs
  double sm_active = 0;   // mean per GPU, 0..1
  double memory_mib = 0;  // mean per GPU
  // Work of the simulator: what the cores were told of tasks and what happened to them in the
  // cluster; and samples, which depend on MonitorOptions::mode alone.
  std::int64_t task_events = 0;
  std::int64_t samples = 0;
  friend bool operator==(const Totals&, const Totals&) = default;
};

struct RunResult {
  Totals totals;
  std::optional<report::RunRecord> record;  // label and provenance are the caller's
  // What the servers know at its end, what they knew before included; with a method that learns.
  std::vector<task::Observation> taught;
};

// A pure function of its arguments: the same ones give the same bytes, on any machine and thread.
// At the end the books must balance (every task ended once, no claim left, the energy is that of
// the GPUs); if they do not, the simulator itself is wrong and it aborts.
// Errors: kInvalid: options out of range; a task that wants more GPUs than any server has ("line
// 7 (bert-8gpu): wants 8 GPUs, the largest server has 4"), with Placing::kQueue, or than all
// servers of one kind, which such a task gets whole and at once with the others; arrivals that go
// back in time; reservations that cannot all have their GPUs, or leave tasks no time.
base::Result<RunResult> Simulate(const Cluster& cluster, std::span<const Arrival> arrivals,
                                 const RunOptions& options);

// The same load `runs` times with the seeds seed, seed + 1, …, on as many threads; in order of
// seeds, so that the number of threads cannot be seen. Records are not kept. `done` is told the
// number of finished runs, from any thread.
base::Result<std::vector<Totals>> SimulateRuns(const Cluster& cluster,
                                               std::span<const Arrival> arrivals,
                                               const RunOptions& options, int runs, int threads,
                                               const std::function<void(int)>& done = {});

}  // namespace carma::sim
