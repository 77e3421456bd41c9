// trace export: writes a trace, or the daemon's history, as CSV or as a script that submits it.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/shell_quote.h"
#include "core/values/entitlement.h"
#include "core/values/task_state.h"
#include "lab/verbs/trace/verbs.h"

namespace carma::cli {
namespace {

using base::Duration;

// ---- the daemon's history ----

trace::JobStatus StatusOf(const api::TaskView& task) {
  const auto state = core::ParseTaskState(task.state).value_or(core::TaskState::kQueued);
  if (state == core::TaskState::kSucceeded) return trace::JobStatus::kPassed;
  if (state == core::TaskState::kCancelled || state == core::TaskState::kTimedOut)
    return trace::JobStatus::kKilled;
  if (core::HoldsGpus(state)) return trace::JobStatus::kRunning;
  return core::IsFinal(state) ? trace::JobStatus::kFailed : trace::JobStatus::kPending;
}

// What the task requests in addition to its workload, as a string for SetWishes.
std::string WishesOf(const api::TaskView& task) {
  trace::Submission wishes{.gpu_type = task.gpu_type, .account = task.account};
  if (task.qos != core::kUsualQos) wishes.qos = task.qos;
  if (task.cpus) wishes.cpus = static_cast<double>(*task.cpus);
  return trace::WishesText(wishes);
}

// The server's local wall-clock time, counted in milliseconds since 1970 as if it were UTC.
std::int64_t LocalMs(std::int64_t utc_ms) {
  return utc_ms + base::Calendar::OfServer().AheadOfUtc(base::FromMs(utc_ms)).count();
}

Result<LoadedJobs> LoadHistory(Context& context, const ExportFlags& flags) {
  LoadedJobs history;
  history.catalogue = CARMA_TRY(LoadCatalogue(flags.source.workloads));
  const TaskPage page = CARMA_TRY(ListTasks(
      context.client(), {.states = "all", .user = flags.user, .limit = trace::kMaxTraceTasks}));
  if (page.tasks.empty())
    return NotFound(flags.user.empty() ? "the daemon has no tasks"
                                       : "no tasks of user " + flags.user);
  if (page.more)
    Warn(context, fmt::format("only the first {} tasks are exported", page.tasks.size()));
  trace::JobTrace& trace = history.trace;
  trace.format = "history";
  trace.start_ms = LocalMs(page.tasks.front().submitted_ms);
  for (const api::TaskView& task : page.tasks) {
    trace::Job job{.submit = Duration(task.submitted_ms - page.tasks.front().submitted_ms),
                   .gpu_milli = task.gpus * 1000,
                   .line = static_cast<std::int32_t>(trace.jobs.size()) + 1,
                   .status = task.launched_ms ? StatusOf(task) : trace::JobStatus::kPending};
    // Only the last attempt counts, because time lost in earlier crashes is due to the scheduler,
    // not the job. A task that has saved a checkpoint gets no duration, because its work spans
    // several attempts but only the times of the last attempt are known.
    if (task.launched_ms && task.ended_ms && task.checkpoints == 0)
      job.duration = Duration(std::max<std::int64_t>(0, *task.RanUntilMs() - *task.launched_ms));
    job.user = trace.users.Number(task.user).value_or(0);
    job.wishes = trace.wishes.Number(WishesOf(task)).value_or(0);
    if (history.catalogue.Find(task.name))
      job.workload = trace.workloads.Number(task.name).value_or(0);
    trace.jobs.push_back(job);
  }
  std::ranges::stable_sort(trace.jobs, {}, &trace::Job::submit);
  trace::StartAtFirstJob(trace);
  trace.provenance.push_back(fmt::format("exported by carma {} (trace export): {} from the daemon",
                                         context.version,
                                         base::Counted(std::ssize(trace.jobs), "task")));
  return history;
}

// ---- a script ----

void Replace(std::string& text, std::string_view what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

// The command that a script submits for a job. pattern: from --command; may be empty.
std::string CommandOf(const trace::Job& job, const trace::Workload* workload,
                      const std::string& name, std::size_t number, const std::string& pattern) {
  const std::string duration = trace::SecondsText(job.duration.value_or(Duration(0)));
  if (!pattern.empty()) {
    std::string command = pattern;
    // Names are replaced last, so placeholders inside names are not replaced.
    Replace(command, "{n}", std::to_string(number));
    Replace(command, "{gpus}", std::to_string(trace::WholeGpus(job)));
    Replace(command, "{duration_s}", duration);
    Replace(command, "{workload}", ShellQuote(name));
    return command;
  }
  if (workload == nullptr) return "sleep " + duration;
  trace::Workload played = *workload;
  if (job.duration) played.solo_s = base::Seconds(*job.duration);
  std::string command = "carma-simtask";
  for (const std::string& word : trace::SimTaskArguments(played)) command += " " + ShellQuote(word);
  return command;
}

// number: the position of the job in the trace, from 1.
std::string SubmitLine(const LoadedJobs& loaded, const trace::Job& job, std::size_t number,
                       std::string_view estimate_source, const std::string& pattern) {
  const std::string& id = loaded.trace.workloads.Text(job.workload);
  const trace::Workload* workload = loaded.catalogue.Find(id).value_or(nullptr);
  const std::string name =
      workload != nullptr ? base::Printable(id, 200) : fmt::format("job-{}", number);
  std::string text =
      fmt::format("carma submit --job-name {} --gpus {}", ShellQuote(name), trace::WholeGpus(job));
  trace::Submission task;
  trace::SetWishes(task, loaded.trace.wishes.Text(job.wishes));
  for (const auto& [option, value] :
       {std::pair("account", &task.account), std::pair("qos", &task.qos),
        std::pair("gpu-type", &task.gpu_type)}) {
    if (!value->empty()) text += fmt::format(" --{} {}", option, ShellQuote(*value));
  }
  // Fractions of a core are rounded up, as in the simulation. A task that requests no cores gets no
  // --cpus.
  if (task.cpus && *task.cpus > 0) text += fmt::format(" --cpus {:.0f}", std::ceil(*task.cpus));
  if (workload != nullptr) {
    const trace::MemoryEstimate estimate = trace::Estimate(*workload, estimate_source);
    if (estimate.mib) text += fmt::format(" --memory {}", *estimate.mib);
    if (estimate.whole_gpu) text += " --exclusive";
  }
  return text + " -- " + CommandOf(job, workload, name, number, pattern) + "\n";
}

// Writes a `carma submit` line for each task, with `sleep` lines in between.
Result<Unit> WriteScript(Context& context, const LoadedJobs& loaded, const ExportFlags& flags) {
  const Result<std::string_view> estimate =
      trace::ParseEstimateSource(flags.estimate.empty() ? "oracle" : flags.estimate);
  if (!estimate) return Invalid("--estimate: " + estimate.error().message);
  CARMA_TRY(loaded.catalogue.CheckEstimates(*estimate));
  if (flags.command.find('\n') != std::string::npos) return Invalid("--command: expected one line");
  const trace::Sink out = OutputOf(context);
  CARMA_TRY(
      out("#!/bin/sh\n" + trace::ProvenanceText(loaded.trace.provenance, loaded.trace.start_ms)));
  Duration last{};
  std::size_t number = 0;
  for (const trace::Job& job : loaded.trace.jobs) {
    std::string text;
    if (job.submit > last) text = "sleep " + trace::SecondsText(job.submit - last) + "\n";
    last = job.submit;
    CARMA_TRY(out(text + SubmitLine(loaded, job, ++number, *estimate, flags.command)));
  }
  return Unit{};
}

}  // namespace

Result<Unit> RunTraceExport(Context& context, const ExportFlags& flags) {
  const bool history = flags.source.path.empty();
  if (flags.as != "script" && !(flags.command + flags.estimate).empty())
    return Invalid("--command and --estimate need --as script");
  LoadedJobs loaded =
      CARMA_TRY(history ? LoadHistory(context, flags) : LoadJobs(context, flags.source));
  // Tasks and scripts are meant to be run, so they exclude jobs that never ran.
  const std::size_t never_ran =
      flags.as == "jobs" ? 0 : std::erase_if(loaded.trace.jobs, trace::NeverRan);
  if (loaded.trace.jobs.empty()) return Invalid("none of the jobs ever ran");
  if (history && flags.as != "jobs") {
    // A task that shared its GPUs took longer than it would alone, so a replay must use its
    // workload's duration.
    for (trace::Job& job : loaded.trace.jobs) {
      if (job.workload != 0) job.duration.reset();
    }
  }
  if (!history) {
    loaded.trace.provenance.push_back(
        MadeBy(context, "export --as " + flags.as, flags.source, loaded.trace));
  }
  if (never_ran > 0)
    loaded.trace.provenance.push_back(fmt::format("skipped: {} that never ran", never_ran));
  if (flags.as == "script") return WriteScript(context, loaded, flags);
  if (flags.as == "jobs" || flags.as == kTaskFormat) return PrintTrace(context, loaded, flags.as);
  return Invalid("--as: expected jobs, tasks or script, not '{}'", base::Printable(flags.as, 40));
}

}  // namespace carma::cli
