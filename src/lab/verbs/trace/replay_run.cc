// trace replay: connects a replay to the daemon. replay.h makes the plan and executes it.
#include <unistd.h>

#include <fmt/format.h>
#include <numeric>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/ids.h"
#include "cli/progress_line.h"
#include "lab/verbs/trace/replay.h"
#include "lab/verbs/trace/verbs.h"

namespace carma::cli {
namespace {

// Interval between progress lines if the output is not a terminal.
constexpr std::chrono::seconds kLogEvery{30};

// Parses arguments such as "38=6G": a task's number in the trace (from 1) and the memory that it
// requests.
Result<std::map<std::size_t, std::int64_t>> ReadSaid(const std::vector<std::string>& texts) {
  std::map<std::size_t, std::int64_t> said;
  for (const std::string& text : texts) {
    const std::size_t sign = text.find('=');
    const std::optional<std::int64_t> task = base::ParseInt(text.substr(0, sign));
    const Result<std::int64_t> mib =
        sign == std::string::npos ? Invalid("") : base::ParseMemoryMib(text.substr(sign + 1));
    if (!task || *task < 1 || !mib) {
      return Invalid("--memory {}: expected a task number and its memory, such as 38=6G",
                     base::Printable(text, 60));
    }
    said[static_cast<std::size_t>(*task)] = *mib;
  }
  return said;
}

Result<ReplayOptions> PrepareReplay(const ReplayFlags& flags) {
  ReplayOptions options;
  const Result<std::string_view> estimate = trace::ParseEstimateSource(flags.estimate);
  if (!estimate) return Invalid("--estimate: " + estimate.error().message);
  options.estimate = *estimate;
  options.said_mib = CARMA_TRY(ReadSaid(flags.memory));
  options.simtask = CARMA_TRY(AbsolutePath(
      flags.simtask.empty() ? base::ExecutableDir() + "/carma-simtask" : flags.simtask));
  if (::access(options.simtask.c_str(), X_OK) != 0)
    return FailErrno(errno, options.simtask + " (see --simtask)");
  options.output_dir =
      CARMA_TRY(AbsolutePath(flags.output_dir.empty() ? "carma-replay" : flags.output_dir));
  CARMA_TRY(base::MakeDirs(options.output_dir));
  for (const char* name : {"PATH", "HOME"}) {
    if (const std::string value = base::GetEnv(name); !value.empty())
      options.environment[name] = value;
  }
  return options;
}

class ClientServer : public ReplayServer {
 public:
  explicit ClientServer(Context& context) : context_(context) {}

  Result<api::StatusView> Status() override {
    return CARMA_TRY(GetStatus(context_.client())).value;
  }

  Result<std::vector<std::uint64_t>> Submit(const std::vector<std::string>& specs) override {
    const auto answer = CARMA_TRY(SubmitTasks(context_.client(), specs));
    for (const std::string& warning : answer.value.warnings) Warn(context_, warning);
    std::vector<std::uint64_t> ids(answer.value.count);
    std::iota(ids.begin(), ids.end(), answer.value.first);
    return ids;
  }

  Result<std::vector<api::TaskView>> Unfinished() override {
    return CARMA_TRY(ListTasks(context_.client(), {.limit = trace::kMaxTraceTasks})).tasks;
  }

  Result<api::TaskView> Await(std::uint64_t id, std::chrono::seconds wait) override {
    return CARMA_TRY(AwaitTask(context_.client(), id, static_cast<int>(wait.count()))).value;
  }

  void Pause(std::chrono::milliseconds real_time) override {
    std::this_thread::sleep_for(real_time);
  }

 private:
  Context& context_;
};

void PrintResult(Context& context, const ReplayFlags& flags, const ReplayProgress& result) {
  if (context.json) {
    std::string text = fmt::format("{{\"trace\":{},\"tasks\":[{}]", JsonString(flags.trace),
                                   fmt::join(result.submitted, ","));
    if (flags.wait) {
      text +=
          fmt::format(",\"succeeded\":{},\"failed\":{},\"ooms\":{},\"elapsed_s\":{}",
                      result.succeeded, result.failed, result.ooms, base::Seconds(result.elapsed));
    }
    return Print(context, text + "}\n");
  }
  const std::string ids = RangesText(result.submitted);
  if (flags.parsable) return Print(context, ids + "\n");
  if (flags.quiet) return;
  if (!flags.wait)
    return Print(context, fmt::format("Submitted tasks {} of {}\n", ids, flags.trace));
  Print(context, fmt::format("Tasks {} of {}: {} succeeded, {} failed, {} OOM crashes, {}\n", ids,
                             flags.trace, result.succeeded, result.failed, result.ooms,
                             base::FormatSpan(result.elapsed)));
}

}  // namespace

Result<Unit> RunTraceReplay(Context& context, const ReplayFlags& flags) {
  const trace::TaskTrace trace = CARMA_TRY(LoadTaskTrace(flags.trace));
  const trace::Catalogue catalogue = CARMA_TRY(LoadCatalogue(flags.workloads));
  const auto workloads = trace::MatchWorkloads(trace, catalogue, flags.trace);
  if (!workloads) {
    const char* hint = flags.workloads.empty() ? " (specify its catalogue with --workloads)" : "";
    return Fail(workloads.error().code, workloads.error().message + hint);
  }
  const ReplayOptions options = CARMA_TRY(PrepareReplay(flags));
  CARMA_TRY(catalogue.CheckEstimates(options.estimate));
  const std::vector<ReplayStep> steps = CARMA_TRY(PlanReplay(trace, *workloads, options));
  ClientServer server(context);
  ProgressLine line(context, kLogEvery);
  Replay::Show show;
  if (flags.progress && !flags.quiet) {
    show = [&](const ReplayProgress& progress) {
      line.Show(flags.trace + ": " + ProgressText(progress));
    };
  }
  const Result<ReplayProgress> result = Replay(server, show).Run(steps, flags.wait);
  line.End();
  if (!result) return std::unexpected(result.error());
  PrintResult(context, flags, *result);
  if (result->failed > 0) context.exit_code = kExitFailure;
  return Unit{};
}

}  // namespace carma::cli
