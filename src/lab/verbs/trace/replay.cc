#include "lab/verbs/trace/replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "base/try.h"
#include "core/values/task_state.h"
#include "task/describe/spec.h"

namespace carma::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{1000};   // between two checks of the tasks
constexpr milliseconds kRetry{1000};  // between two attempts while the daemon is unavailable
constexpr int kMaxRetries = 60;
constexpr std::size_t kMaxBatch = 1000;  // tasks in one submission

// number: the position of the task in the trace, from 1.
Result<std::string> SpecText(const trace::Workload& workload, const trace::Submission& submission,
                             const ReplayOptions& options, std::size_t number) {
  task::TaskSpec spec;
  spec.name = base::Printable(workload.id, 200);
  spec.command = trace::SimTaskArguments(workload);
  spec.command.insert(spec.command.begin(), options.simtask);
  spec.workdir = options.output_dir;
  spec.environment = options.environment;
  spec.gpus = workload.gpus;
  if (!submission.gpu_type.empty()) spec.gpu_type = submission.gpu_type;
  if (!submission.qos.empty()) spec.qos = submission.qos;
  if (!submission.account.empty()) spec.account = submission.account;
  if (submission.cpus && *submission.cpus > 0)  // as in trace export
    spec.cpus = static_cast<int>(std::ceil(*submission.cpus));
  const trace::MemoryEstimate estimate = trace::Estimate(workload, options.estimate);
  spec.memory_mib = estimate.mib;
  if (estimate.mib) spec.memory_source = options.estimate;
  spec.exclusive = estimate.whole_gpu;
  if (const auto said = options.said_mib.find(number); said != options.said_mib.end()) {
    spec.memory_mib = said->second;
    spec.memory_source = "given";
    spec.exclusive = false;
  }
  spec.stdout_path = options.output_dir + "/%j-%x.out";
  spec.stderr_path = options.output_dir + "/%j-%x.err";
  if (Result<Unit> valid = task::Validate(spec); !valid)
    return base::Wrap(valid.error(), "workload '" + spec.name + "'");
  return task::ToJsonText(spec);
}

}  // namespace

Result<std::vector<ReplayStep>> PlanReplay(const trace::TaskTrace& trace,
                                           const std::vector<const trace::Workload*>& workloads,
                                           const ReplayOptions& options) {
  std::vector<ReplayStep> steps;
  steps.reserve(workloads.size());
  if (!options.said_mib.empty() && options.said_mib.rbegin()->first > workloads.size()) {
    return Invalid("--memory {}=…: no such task; the trace has {}",
                   options.said_mib.rbegin()->first, base::Counted(std::ssize(workloads), "task"));
  }
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const trace::Submission& submission = trace.submissions[i];
    const trace::Workload played = trace::AsSubmitted(*workloads[i], submission);
    std::string spec = CARMA_TRY(SpecText(played, submission, options, i + 1));
    steps.push_back({submission.at, std::move(spec)});
  }
  return steps;
}

std::string ProgressText(const ReplayProgress& progress) {
  std::string text;
  const auto add = [&](std::size_t count, const char* what) {
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + " " + what;
  };
  const std::size_t to_come = progress.total - progress.submitted.size();
  if (to_come > 0) add(to_come, "to come");
  add(progress.queued, "queued");
  add(progress.running, "running");
  add(progress.succeeded, "done");
  if (progress.failed > 0) add(progress.failed, "failed");
  if (progress.ooms > 0) add(static_cast<std::size_t>(progress.ooms), "OOM");
  text += ", " + base::FormatSpan(progress.elapsed);
  if (progress.time_scale != 1)
    text += " simulated (x" + std::to_string(std::llround(progress.time_scale)) + ")";
  return text;
}

template <class Call>
auto Replay::Patiently(Call call) -> decltype(call()) {
  for (int tries = 0;; ++tries) {
    auto answer = call();
    const bool away = !answer && answer.error().code == ErrorCode::kUnavailable;
    if (!away || tries == kMaxRetries) return answer;
    server_.Pause(kRetry);
  }
}

Result<ReplayProgress> Replay::Run(const std::vector<ReplayStep>& steps, bool wait) {
  progress_ = {};
  progress_.total = steps.size();
  const api::StatusView status = CARMA_TRY(server_.Status());
  start_ = base::FromMs(status.now_ms);
  progress_.time_scale = status.time_scale;
  Result<Unit> done = SubmitAll(steps);
  if (done && wait) done = AwaitAll();
  if (!done) {
    return base::Wrap(done.error(), "after " + std::to_string(progress_.submitted.size()) + " of " +
                                        std::to_string(steps.size()) + " submissions");
  }
  return progress_;
}

Result<Unit> Replay::SubmitAll(const std::vector<ReplayStep>& steps) {
  for (std::size_t next = 0; next < steps.size();) {
    const api::StatusView status = CARMA_TRY(Patiently([&] { return server_.Status(); }));
    const base::Duration elapsed = base::FromMs(status.now_ms) - start_;
    std::vector<std::string> due;
    while (next < steps.size() && steps[next].at <= elapsed && due.size() < kMaxBatch)
      due.push_back(steps[next++].spec);
    if (due.empty()) {
      const double scale = std::max(status.time_scale, 1e-6);
      const double left_ms = static_cast<double>((steps[next].at - elapsed).count()) / scale;
      const milliseconds left(static_cast<std::int64_t>(std::min(std::ceil(left_ms), 1e9)));
      if (show_ && left >= kLook) CARMA_TRY(Look());
      server_.Pause(std::min(left, kLook));
      continue;
    }
    // A failed submission is not repeated, because the daemon may have accepted its tasks even
    // though its response was lost.
    const std::vector<std::uint64_t> ids = CARMA_TRY(server_.Submit(due));
    progress_.submitted.insert(progress_.submitted.end(), ids.begin(), ids.end());
    unfinished_.insert(ids.begin(), ids.end());
  }
  return Look();
}

Result<Unit> Replay::AwaitAll() {
  while (!unfinished_.empty()) {
    // Each request waits for the oldest task to end, so the end of the last task is noticed
    // immediately.
    const std::uint64_t oldest = *unfinished_.begin();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(kLook);
    CARMA_TRY(Patiently([&] { return server_.Await(oldest, seconds); }));
    CARMA_TRY(Look());
  }
  return Unit{};
}

// Counts the waiting, running and newly ended tasks of this replay, and shows the progress.
Result<Unit> Replay::Look() {
  const std::vector<api::TaskView> tasks =
      CARMA_TRY(Patiently([&] { return server_.Unfinished(); }));
  std::set<std::uint64_t> gone = unfinished_;
  progress_.queued = progress_.running = 0;
  for (const api::TaskView& task : tasks) {
    if (gone.erase(task.id) == 0) continue;  // not a task of this replay
    ooms_[task.id] = task.ooms;
    const std::optional<core::TaskState> state = core::ParseTaskState(task.state);
    const bool on_gpus = state == core::TaskState::kRunning || state == core::TaskState::kStopping;
    ++(on_gpus ? progress_.running : progress_.queued);
  }
  for (const std::uint64_t id : gone) {
    const api::TaskView task =
        CARMA_TRY(Patiently([&] { return server_.Await(id, std::chrono::seconds(0)); }));
    const std::optional<core::TaskState> state = core::ParseTaskState(task.state);
    if (!state || !core::IsFinal(*state)) continue;
    ++(state == core::TaskState::kSucceeded ? progress_.succeeded : progress_.failed);
    ooms_[id] = task.ooms;
    unfinished_.erase(id);
  }
  progress_.ooms = std::accumulate(ooms_.begin(), ooms_.end(), 0,
                                   [](int sum, const auto& entry) { return sum + entry.second; });
  const api::StatusView status = CARMA_TRY(Patiently([&] { return server_.Status(); }));
  progress_.elapsed = base::FromMs(status.now_ms) - start_;
  if (show_) show_(progress_);
  return Unit{};
}

}  // namespace carma::cli
