// trace replay, trace info.
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <numeric>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "cli/calls.h"
#include "cli/ids.h"
#include "cli/terminal.h"
#include "cli/trace_replay.h"
#include "cli/verbs.h"

namespace carma::cli {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr std::size_t kMaxFileBytes = 64 << 20;
constexpr const char* kBuiltIn = "demo60";
// Where nobody watches a moving line, progress is told so often.
constexpr std::chrono::seconds kLogEvery{30};

struct TraceFlags {
  std::string trace;
  std::string workloads;  // empty: the built-in catalogue
};

struct ReplayFlags : TraceFlags {
  std::string estimate = "oracle";
  std::string simtask;     // empty: beside this program
  std::string output_dir;  // empty: ./carma-replay
  bool wait = false;
  bool progress = false;
  bool parsable = false;
  bool quiet = false;
};

// The trace and the workload of each submission.
struct LoadedTrace {
  trace::TaskTrace trace;
  trace::Catalogue catalogue;  // the workloads point into its map, whose nodes never move
  std::vector<const trace::Workload*> workloads;
};

Result<trace::TaskTrace> LoadTrace(const std::string& path) {
  if (path == kBuiltIn && !base::Exists(path)) return trace::BuiltInDemo60();
  const Result<std::string> text = base::ReadFile(path, kMaxFileBytes);
  if (!text) return std::unexpected(text.error());
  return trace::ParseTrace(*text, path);
}

Result<trace::Catalogue> LoadCatalogue(const std::string& path) {
  if (path.empty()) return trace::Catalogue::BuiltIn();
  const Result<std::string> text = base::ReadFile(path, kMaxFileBytes);
  if (!text) return std::unexpected(text.error());
  return trace::Catalogue::Parse(*text, path);
}

Result<LoadedTrace> Load(const TraceFlags& flags) {
  Result<trace::TaskTrace> trace = LoadTrace(flags.trace);
  if (!trace) return std::unexpected(trace.error());
  Result<trace::Catalogue> catalogue = LoadCatalogue(flags.workloads);
  if (!catalogue) return std::unexpected(catalogue.error());
  LoadedTrace loaded{
      .trace = std::move(*trace), .catalogue = std::move(*catalogue), .workloads = {}};
  auto workloads = trace::MatchWorkloads(loaded.trace, loaded.catalogue, flags.trace);
  if (!workloads) {
    const char* hint = flags.workloads.empty() ? " (name its catalogue with --workloads)" : "";
    return Fail(workloads.error().code, workloads.error().message + hint);
  }
  loaded.workloads = std::move(*workloads);
  return loaded;
}

Result<std::string> AbsolutePath(const std::string& path) {
  if (path.starts_with('/')) return path;
  char folder[4096];
  if (!::getcwd(folder, sizeof folder)) return base::FailErrno(errno, "current folder");
  return std::string(folder) + "/" + path;
}

Result<ReplayOptions> PrepareReplay(const ReplayFlags& flags) {
  ReplayOptions options;
  const auto estimate = trace::ParseEstimateKind(flags.estimate);
  if (!estimate) {
    return Fail(ErrorCode::kInvalid,
                "--estimate: expected none, oracle, horus, faketensor or gpumemnet, not '" +
                    base::Printable(flags.estimate, 40) + "'");
  }
  options.estimate = *estimate;
  const Result<std::string> simtask = AbsolutePath(
      flags.simtask.empty() ? base::ExecutableDir() + "/carma-simtask" : flags.simtask);
  if (!simtask) return std::unexpected(simtask.error());
  if (::access(simtask->c_str(), X_OK) != 0) {
    return base::FailErrno(errno, *simtask + " (see --simtask)");
  }
  options.simtask = *simtask;
  const Result<std::string> output =
      AbsolutePath(flags.output_dir.empty() ? "carma-replay" : flags.output_dir);
  if (!output) return std::unexpected(output.error());
  if (auto made = base::MakeDirs(*output); !made) return std::unexpected(made.error());
  options.output_dir = *output;
  for (const char* name : {"PATH", "HOME"}) {
    if (const std::string value = base::GetEnv(name); !value.empty()) {
      options.environment[name] = value;
    }
  }
  return options;
}

class ClientServer : public ReplayServer {
 public:
  explicit ClientServer(Context& context) : context_(context) {}

  Result<api::StatusView> Status() override { return Value(GetStatus(context_.client())); }

  Result<std::vector<std::uint64_t>> Submit(const std::vector<std::string>& specs) override {
    const auto answer = SubmitTasks(context_.client(), specs);
    if (!answer) return std::unexpected(answer.error());
    for (const std::string& warning : answer->value.warnings) Warn(context_, warning);
    std::vector<std::uint64_t> ids(answer->value.count);
    std::iota(ids.begin(), ids.end(), answer->value.first);
    return ids;
  }

  Result<std::vector<api::TaskView>> Unfinished() override {
    auto page = ListTasks(context_.client(), {.states = "",
                                              .user = "",
                                              .name = "",
                                              .limit = trace::kMaxTraceTasks,
                                              .newest_first = false});
    if (!page) return std::unexpected(page.error());
    return std::move(page->tasks);
  }

  Result<api::TaskView> Await(std::uint64_t id, std::chrono::seconds wait) override {
    return Value(AwaitTask(context_.client(), id, static_cast<int>(wait.count())));
  }

  void Pause(std::chrono::milliseconds real_time) override {
    std::this_thread::sleep_for(real_time);
  }

 private:
  template <class T>
  static Result<T> Value(Called<T> answer) {
    if (!answer) return std::unexpected(answer.error());
    return std::move(answer->value);
  }

  Context& context_;
};

// One line that renews itself on a terminal, a line now and then elsewhere; on `err`, so that `out`
// holds the answer alone.
class ProgressLine {
 public:
  ProgressLine(Context& context, std::string name)
      : context_(context), name_(std::move(name)), screen_(ScreenOf(context.err)) {}

  void operator()(const ReplayProgress& progress) {
    const std::string text = name_ + ": " + ProgressText(progress);
    const auto now = std::chrono::steady_clock::now();
    if (screen_.width > 0) {
      const auto width = static_cast<std::size_t>(screen_.width - 1);
      std::fprintf(context_.err, "\r%s\033[K", CutTo(text, width).c_str());
      open_ = true;
    } else if (!last_ || now - *last_ >= kLogEvery) {
      std::fprintf(context_.err, "%s\n", text.c_str());
      last_ = now;
    }
    std::fflush(context_.err);
  }
  void End() {
    if (open_) std::fputs("\n", context_.err);
    open_ = false;
  }

 private:
  Context& context_;
  std::string name_;
  Screen screen_;
  bool open_ = false;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

// "1-40,43,45-60"
std::string RangesText(const std::vector<std::uint64_t>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + RangeText(ids[i], end - i);
    i = end;
  }
  return text;
}

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
  if (!flags.wait) {
    return Print(context, fmt::format("Submitted tasks {} of {}\n", ids, flags.trace));
  }
  Print(context, fmt::format("Tasks {} of {}: {} succeeded, {} failed, {} OOM crashes, {}\n", ids,
                             flags.trace, result.succeeded, result.failed, result.ooms,
                             base::FormatSpan(result.elapsed)));
}

void RunReplay(Context& context, const ReplayFlags& flags) {
  const Result<LoadedTrace> loaded = Load(flags);
  if (!loaded) return context.Fail(loaded.error());
  const Result<ReplayOptions> options = PrepareReplay(flags);
  if (!options) return context.Fail(options.error());
  const auto steps = PlanReplay(loaded->trace, loaded->workloads, *options);
  if (!steps) return context.Fail(steps.error());
  ClientServer server(context);
  ProgressLine line(context, flags.trace);
  Replay::Show show;
  if (flags.progress && !flags.quiet) show = std::ref(line);
  const Result<ReplayProgress> result = Replay(server, show).Run(*steps, flags.wait);
  line.End();
  if (!result) return context.Fail(result.error());
  PrintResult(context, flags, *result);
  if (result->failed > 0) context.exit_code = kExitFailure;
}

// What a trace asks of a server.
struct TraceFacts {
  std::map<std::string, int> classes;
  std::map<int, int> gpus;  // tasks by number of GPUs
  double gpu_seconds = 0;   // one task per GPU
  std::int64_t highest_mib = 0;
  double last_submit_s = 0;
};

TraceFacts FactsOf(const LoadedTrace& loaded) {
  TraceFacts facts;
  for (const trace::Workload* workload : loaded.workloads) {
    ++facts.classes[workload->weight_class.empty() ? "unclassed" : workload->weight_class];
    ++facts.gpus[workload->gpus];
    facts.gpu_seconds += workload->solo_s * workload->gpus;
    for (const std::int64_t mib : workload->memory_mib) {
      facts.highest_mib = std::max(facts.highest_mib, mib);
    }
  }
  facts.last_submit_s = base::Seconds(loaded.trace.submissions.back().at);
  return facts;
}

// {"light":7,…} or "7 light, …".
std::string CountsText(const auto& counts, bool json) {
  std::string text;
  for (const auto& [key, count] : counts) {
    if (!text.empty()) text += json ? "," : ", ";
    text += json ? fmt::format("{}:{}", JsonString(fmt::format("{}", key)), count)
                 : fmt::format("{} {}", count, key);
  }
  return text;
}

void RunInfo(Context& context, const TraceFlags& flags) {
  const Result<LoadedTrace> loaded = Load(flags);
  if (!loaded) return context.Fail(loaded.error());
  const TraceFacts facts = FactsOf(*loaded);
  const std::size_t tasks = loaded->workloads.size();
  if (context.json) {
    return Print(context,
                 fmt::format("{{\"trace\":{},\"tasks\":{},\"last_submit_s\":{},\"classes\":{{{}}},"
                             "\"gpus\":{{{}}},\"gpu_seconds\":{},\"highest_memory_mib\":{}}}\n",
                             JsonString(flags.trace), tasks, facts.last_submit_s,
                             CountsText(facts.classes, true), CountsText(facts.gpus, true),
                             facts.gpu_seconds, facts.highest_mib));
  }
  std::string gpus;
  for (const auto& [wanted, count] : facts.gpus) {
    gpus += fmt::format("{}{} on {} GPU{}", gpus.empty() ? "" : ", ", count, wanted,
                        wanted == 1 ? "" : "s");
  }
  const auto span = base::Duration(static_cast<std::int64_t>(facts.last_submit_s * 1000));
  Print(context, fmt::format("Trace        {}\n"
                             "Tasks        {} ({})\n"
                             "GPUs         {}\n"
                             "Submitted    within {}\n"
                             "Alone        {:.1f} GPU hours, one task per GPU\n"
                             "Memory       at most {} on one GPU\n",
                             flags.trace, tasks, CountsText(facts.classes, false), gpus,
                             base::FormatSpan(span), facts.gpu_seconds / 3600,
                             base::FormatMib(facts.highest_mib)));
}

void AddTraceOptions(CLI::App& verb, TraceFlags& flags) {
  verb.add_option("trace", flags.trace, "CSV of submit_s,workload_id, or demo60 (built in)")
      ->required()
      ->type_name("FILE");
  verb.add_option("--workloads", flags.workloads, "catalogue of its workloads (default: built in)")
      ->type_name("FILE");
}

void AddReplay(CLI::App& trace, Context& context) {
  // shared_ptr: std::function wants to be copied.
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* verb = trace.add_subcommand(
      "replay", "Submit a trace's tasks at their times, as simulated training tasks");
  AddTraceOptions(*verb, *flags);
  verb->add_option("--estimate", flags->estimate,
                   "memory told to CARMA: oracle (default), horus, faketensor, gpumemnet, none")
      ->type_name("NAME");
  verb->add_option("--simtask", flags->simtask, "carma-simtask (default: beside carma)")
      ->type_name("PATH");
  verb->add_option("--output-dir", flags->output_dir, "for outputs (default: ./carma-replay)")
      ->type_name("DIR");
  verb->add_flag("-W,--wait", flags->wait, "until all tasks have ended; exit code 1 if one failed");
  verb->add_flag("--progress", flags->progress, "one line on stderr that tells how it goes");
  verb->add_flag("--parsable", flags->parsable, "print only the tasks' numbers");
  verb->add_flag("-q,--quiet", flags->quiet, "print nothing but errors");
  verb->footer(
      "Times are those of the daemon's clock, which runs faster on a simulated server.\n"
      "  carma trace replay demo60 --estimate gpumemnet --wait --progress");
  verb->callback([&context, flags] { RunReplay(context, *flags); });
}

void AddInfo(CLI::App& trace, Context& context) {
  auto flags = std::make_shared<TraceFlags>();
  CLI::App* verb = trace.add_subcommand("info", "What a trace asks of a server");
  AddTraceOptions(*verb, *flags);
  verb->callback([&context, flags] { RunInfo(context, *flags); });
}

}  // namespace

void AddTraceCommand(CLI::App& app, Context& context) {
  CLI::App* trace = app.add_subcommand("trace", "Replay or describe traces of training tasks");
  trace->require_subcommand(1);
  AddReplay(*trace, context);
  AddInfo(*trace, context);
}

}  // namespace carma::cli
