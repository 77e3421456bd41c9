// Replays a trace against a running daemon: submits each task at its time on the daemon's clock,
// then waits until the tasks have ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/status_view.h"
#include "api/task_view.h"
#include "base/result.h"
#include "base/time.h"
#include "lab/trace/task_trace.h"
#include "lab/trace/workloads.h"

namespace carma::cli {

// Options for running a trace's tasks.
struct ReplayOptions {
  std::string_view estimate = "oracle";  // trace::ParseEstimateSource
  // User-specified memory that replaces the estimate, keyed by task number in the trace (from 1).
  std::map<std::size_t, std::int64_t> said_mib;
  std::string simtask;  // absolute path of carma-simtask
  // Absolute path of the working directory, which also receives the outputs.
  std::string output_dir;
  std::map<std::string, std::string> environment;
};

struct ReplayStep {
  base::Duration at{};  // since the replay's start, by the daemon's clock
  std::string spec;     // JSON text of a task::TaskSpec
};

// Creates one step per submission: a task with the workload's name that runs the workload in
// carma-simtask. A workload that cannot be estimated gets whole GPUs. Returns kInvalid for an
// invalid output folder, or if memory is specified for a task that is not in the trace.
Result<std::vector<ReplayStep>> PlanReplay(const trace::TaskTrace& trace,
                                           const std::vector<const trace::Workload*>& workloads,
                                           const ReplayOptions& options);

// The daemon operations that a replay needs. Tests use a fake server instead of a real daemon.
class ReplayServer {
 public:
  virtual ~ReplayServer() = default;
  virtual Result<api::StatusView> Status() = 0;
  // Submits these tasks and returns their numbers, in order.
  virtual Result<std::vector<std::uint64_t>> Submit(const std::vector<std::string>& specs) = 0;
  // All unfinished tasks.
  virtual Result<std::vector<api::TaskView>> Unfinished() = 0;
  // Returns as soon as the task has ended, or after `wait`; 0 means immediately.
  virtual Result<api::TaskView> Await(std::uint64_t id, std::chrono::seconds wait) = 0;
  virtual void Pause(std::chrono::milliseconds real_time) = 0;
};

struct ReplayProgress {
  std::size_t total = 0;
  std::vector<std::uint64_t> submitted;
  std::size_t queued = 0;  // submitted tasks waiting for GPUs or being started
  std::size_t running = 0;
  std::size_t succeeded = 0;
  std::size_t failed = 0;    // tasks that ended in any other way
  int ooms = 0;              // out-of-memory crashes, including recovered ones
  base::Duration elapsed{};  // since the replay's start, by the daemon's clock
  double time_scale = 1;
};
// Formats the progress: "12 to come, 5 queued, 6 running, 36 done, 1 failed, 2 OOM, 3:12:40
// simulated (x400)".
std::string ProgressText(const ReplayProgress& progress);

class Replay {
 public:
  using Show = std::function<void(const ReplayProgress&)>;
  // show: called about once a second; may be empty.
  Replay(ReplayServer& server, Show show) : server_(server), show_(std::move(show)) {}
  // Blocks until all tasks are submitted or, with `wait`, until all have ended. Waits up to a
  // minute for the daemon to restart. Errors from the daemon include the number of submitted tasks.
  Result<ReplayProgress> Run(const std::vector<ReplayStep>& steps, bool wait);

 private:
  Result<Unit> SubmitAll(const std::vector<ReplayStep>& steps);
  Result<Unit> AwaitAll();
  Result<Unit> Look();
  // Repeats the call until the daemon responds.
  template <class Call>
  auto Patiently(Call call) -> decltype(call());

  ReplayServer& server_;
  Show show_;
  ReplayProgress progress_;
  std::set<std::uint64_t> unfinished_;
  std::map<std::uint64_t, int> ooms_;
  base::Time start_{};
};

}  // namespace carma::cli
