// Defines the subverbs of `carma trace` and their options. verbs.h declares the functions that do
// the work.
#include <cstdint>
#include <memory>
#include <utility>

#include "base/text.h"
#include "lab/trace/job_mapping.h"
#include "lab/trace/job_reader.h"
#include "lab/verbs/lab.h"
#include "lab/verbs/trace/verbs.h"

namespace carma::cli {
namespace {

// Adds a subverb and returns it with its flags, which live as long as its callback. They are held
// by a shared_ptr, because std::function must be copyable.
template <class Flags>
std::pair<Syntax, std::shared_ptr<Flags>> AddSubVerb(Syntax trace, Context& context,
                                                     const char* name, const char* help,
                                                     Result<Unit> (*run)(Context&, const Flags&)) {
  auto flags = std::make_shared<Flags>();
  const Syntax verb = trace.AddVerb(name, help);
  verb.OnRun([&context, flags, run, word = std::string_view(name)] {
    if (context.json && word != "info" && word != "replay")
      return context.Fail(Invalid("trace {} takes no --json: it writes a trace", word).error());
    if (const Result<Unit> done = run(context, *flags); !done) context.Fail(done.error());
  });
  return {verb, flags};
}

// name: the option or argument for the trace file.
Option AddSourceOptions(Syntax verb, JobSource& source, const char* name = "trace") {
  const Option file = verb.AddOption(name, "FILE", source.path,
                                     "cluster or task trace, - for standard input, or demo60");
  verb.AddOption("--format", "NAME", source.format,
                 "trace format (default: detected): " + base::Join(trace::TraceFormats(), " "))
      .Needs(file);
  verb.AddFlag("--strict", source.strict, "fail on the first bad line").Needs(file);
  return file;
}

Option AddCatalogueOption(Syntax verb, std::string& workloads) {
  return verb.AddOption("--workloads", "FILE", workloads,
                        "workload catalogue (default: the built-in one)");
}

void AddSeedOption(Syntax verb, std::uint64_t& seed) {
  verb.AddOption("--seed", "N", seed,
                 "random seed; the same seed gives the same output (default: 1)")
      .Range(std::int64_t{0}, INT64_MAX);
}

void AddReplay(Syntax trace, Context& context) {
  const auto [verb, flags] =
      AddSubVerb(trace, context, "replay",
                 "Submit a trace's tasks at their recorded times, as simulated training tasks",
                 &RunTraceReplay);
  verb.AddOption("trace", "FILE", flags->trace,
                 "CSV file with columns submit_s and workload_id, or the built-in demo60")
      .Required();
  AddCatalogueOption(verb, flags->workloads);
  verb.AddOption(
      "--estimate", "NAME", flags->estimate,
      "memory estimate given to CARMA: oracle (default), horus, faketensor, gpumemnet, none");
  verb.AddOption("--memory", "N=SIZE", flags->memory,
                 "make the N-th task request SIZE, as a user would, instead of its estimate")
      .OneWord();
  verb.AddOption("--simtask", "PATH", flags->simtask,
                 "path of carma-simtask (default: next to carma)");
  verb.AddOption("--output-dir", "DIR", flags->output_dir,
                 "folder for outputs (default: ./carma-replay)");
  verb.AddFlag("-W,--wait", flags->wait,
               "wait until all tasks have ended; exit code 1 if one failed");
  verb.AddFlag("--progress", flags->progress, "show progress on one line on stderr");
  verb.AddFlag("--parsable", flags->parsable, "print only the task numbers");
  verb.AddFlag("-q,--quiet", flags->quiet, "print only errors");
  verb.Footer(
      "Times follow the daemon's clock, which runs faster on a simulated server.\n"
      "  carma trace replay demo60 --estimate gpumemnet --wait --progress");
}

void AddInfo(Syntax trace, Context& context) {
  const auto [verb, flags] =
      AddSubVerb(trace, context, "info",
                 "Show what a trace contains: sizes, durations, arrivals, demand", &RunTraceInfo);
  AddSourceOptions(verb, *flags).Required();
  AddCatalogueOption(verb, flags->workloads);
  verb.Footer(
      "  carma trace info cluster_log.csv --json\n"
      "  tar xzOf trace-data.tar.gz trace-data/cluster_job_log | carma trace info -");
}

void AddWindow(Syntax trace, Context& context) {
  const auto [verb, flags] =
      AddSubVerb(trace, context, "window",
                 "Extract the jobs of a time span, a virtual cluster or a user", &RunTraceWindow);
  AddSourceOptions(verb, flags->source).Required();
  AddCatalogueOption(verb, flags->source.workloads);
  verb.AddOption(
      "--from", "TIME", flags->from,
      "earliest submission: a span since the start, such as 36h, or a date (default: the start)");
  verb.AddOption("--to", "TIME", flags->to,
                 "only jobs submitted before this time (default: the end)");
  verb.AddOption("--vc", "NAME", flags->vc, "only jobs of this virtual cluster");
  verb.AddOption("--user", "NAME", flags->user, "only jobs of this user");
  verb.AddOption("--max-gpus", "N", flags->max_gpus, "only jobs with at most this many GPUs")
      .Range(1, trace::kMaxJobGpus);
  verb.Footer("  carma trace window cluster_job_log --from 2017-10-09 --to 2017-10-16 > week.csv");
}

void AddSample(Syntax trace, Context& context) {
  const auto [verb, flags] = AddSubVerb(
      trace, context, "sample",
      "Sample jobs for a small server, keeping the trace's arrival pattern", &RunTraceSample);
  AddSourceOptions(verb, flags->source).Required();
  AddCatalogueOption(verb, flags->source.workloads);
  verb.AddOption("--gpus", "N", flags->gpus, "number of GPUs in the server (default: 4)")
      .Range(1, trace::kMaxJobGpus);
  verb.AddOption("--load", "SHARE", flags->load,
                 "GPU time submitted, relative to the server's capacity (default: 1)")
      .Range(1e-6, 1e3);
  verb.AddOption("--tasks", "N", flags->tasks, "approximate number of jobs, instead of a load")
      .Range(std::size_t{1}, trace::kMaxJobs);
  verb.AddFlag("--scale-time", flags->scale_time,
               "scale all gaps so that the jobs produce the requested load");
  AddSeedOption(verb, flags->seed);
  verb.Footer(
      "  carma trace sample week.csv --gpus 4 --load 1.2 > small.csv\n"
      "  carma trace map week.csv | carma trace sample - --tasks 60 --load 4 --scale-time");
}

void AddMap(Syntax trace, Context& context) {
  const auto [verb, flags] =
      AddSubVerb(trace, context, "map",
                 "Make a task trace: give each job a workload from the catalogue", &RunTraceMap);
  AddSourceOptions(verb, flags->source).Required();
  AddCatalogueOption(verb, flags->source.workloads);
  verb.AddOption(
      "--mix", "MIX", flags->mix,
      std::string("share of each class, from the shortest jobs to the longest (default: ") +
          trace::kUsualMix + " if the catalogue has these classes)");
  verb.AddFlag("--keep-durations", flags->keep_durations,
               "give tasks the durations of their jobs, not those of their workloads");
  verb.AddOption("--users", "WORD", flags->users,
                 "task owners: the jobs' users (user, default) or their virtual clusters (vc)")
      .OneOf({"user", "vc"});
  AddSeedOption(verb, flags->seed);
  verb.Footer("  carma trace map small.csv --mix light=50,medium=40,heavy=10 > tasks.csv");
}

void AddGenerate(Syntax trace, Context& context) {
  const auto [verb, flags] =
      AddSubVerb(trace, context, "generate",
                 "Generate a trace of any length, fitted to a real one or to built-in defaults",
                 &RunTraceGenerate);
  const Option fit = AddSourceOptions(verb, flags->fit, "--fit");
  AddCatalogueOption(verb, flags->fit.workloads).Needs(fit);
  verb.AddOption("--tasks", "N", flags->tasks, "number of jobs (default: 60)")
      .Range(std::size_t{1}, trace::kMaxJobs);
  verb.AddOption("--mean-gap", "S", flags->mean_gap_s, "mean seconds between submissions")
      .Range(0.0, 1e7);
  verb.AddOption("--max-gpus", "N", flags->max_gpus, "only jobs with at most this many GPUs")
      .Range(1, trace::kMaxJobGpus);
  AddSeedOption(verb, flags->seed);
  verb.Footer(
      "  carma trace generate --tasks 10000 --fit cluster_job_log --seed 7 > jobs.csv\n"
      "  carma trace generate --tasks 100 --max-gpus 2 | carma trace map - > tasks.csv");
}

void AddExport(Syntax trace, Context& context) {
  const auto [verb, flags] = AddSubVerb(
      trace, context, "export",
      "Export a trace (default: the daemon's history) as CSV or as a script", &RunTraceExport);
  const Option file = AddSourceOptions(verb, flags->source);
  verb.AddOption("--user", "NAME", flags->user, "only this user's tasks in the daemon's history")
      .Excludes(file);
  AddCatalogueOption(verb, flags->source.workloads);
  verb.AddOption("--as", "FORM", flags->as,
                 "jobs (CSV, default), tasks (CSV) or script (sh); the last two omit jobs that "
                 "never ran");
  verb.AddOption("--estimate", "NAME", flags->estimate,
                 "with --as script: memory requested by tasks: oracle (default), horus, "
                 "faketensor, gpumemnet, none");
  verb.AddOption(
      "--command", "LINE", flags->command,
      "with --as script: command to submit; {workload}, {gpus}, {duration_s} and {n} are replaced");
  verb.Footer(
      "  carma trace export > history.csv\n"
      "  carma trace export tasks.csv --as script > dispatch.sh\n"
      "  carma trace export tasks.csv --as script --command 'python {workload}.py'");
}

}  // namespace

void AddTraceCommand(Syntax app, Context& context) {
  const Syntax trace = app.AddVerb("trace", "Inspect, cut, generate, replay and export traces");
  trace.NeedsVerb();
  trace.Footer(
      "New traces go to standard output; their first lines describe their origin:\n"
      "  carma trace window cluster_job_log --from 2017-10-09 --to 2017-10-16 |\n"
      "    carma trace sample - --gpus 4 | carma trace map - > tasks.csv\n"
      "Every verb also takes --socket PATH, and info and replay take --json.");
  AddInfo(trace, context);
  AddWindow(trace, context);
  AddSample(trace, context);
  AddMap(trace, context);
  AddGenerate(trace, context);
  AddReplay(trace, context);
  AddExport(trace, context);
}

}  // namespace carma::cli
