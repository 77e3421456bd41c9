// How the sub-verbs of `carma trace` and their options are spelled; what they do is declared in
// trace_verbs.h.
#include <CLI/CLI.hpp>
#include <memory>

#include "lab/trace/job_reader.h"
#include "lab/verbs/lab.h"
#include "lab/verbs/trace/verbs.h"

namespace carma::cli {
namespace {

constexpr const char* kDefaultMix = "light=65,medium=27,heavy=8";
constexpr std::size_t kMostGenerated = trace::kMaxJobs;

// A sub-verb whose flags live as long as its callback. shared_ptr: std::function wants to be
// copied.
template <class Flags>
CLI::App* AddSubVerb(CLI::App& trace, Context& context, const char* name, const char* help,
                     std::shared_ptr<Flags>& flags, void (*run)(Context&, const Flags&)) {
  flags = std::make_shared<Flags>();
  CLI::App* verb = trace.add_subcommand(name, help);
  verb->callback([&context, flags, run] { run(context, *flags); });
  return verb;
}

std::string FormatHelp() {
  std::string help = "instead of telling it by the content:";
  for (const trace::TraceFormat& format : trace::TraceFormats()) {
    help += " " + std::string(format.name);
  }
  return help;
}

// name: of the option or positional that tells the file.
CLI::Option* AddSourceOptions(CLI::App& verb, JobSource& source, const char* name = "trace") {
  verb.add_option("--format", source.format, FormatHelp())->type_name("NAME");
  verb.add_flag("--strict", source.strict, "what is wrong with a line is an error");
  return verb
      .add_option(name, source.path, "cluster or task trace, - for standard input, or demo60")
      ->type_name("FILE");
}

void AddCatalogueOption(CLI::App& verb, std::string& workloads) {
  verb.add_option("--workloads", workloads, "catalogue of the workloads (default: built in)")
      ->type_name("FILE");
}

void AddSeedOption(CLI::App& verb, std::uint64_t& seed) {
  verb.add_option("--seed", seed, "equal seeds give equal bytes (default: 1)")->type_name("N");
}

void AddReplay(CLI::App& trace, Context& context) {
  std::shared_ptr<ReplayFlags> flags;
  CLI::App* verb = AddSubVerb(trace, context, "replay",
                              "Submit a trace's tasks at their times, as simulated training tasks",
                              flags, &RunTraceReplay);
  verb->add_option("trace", flags->trace, "CSV of submit_s,workload_id, or demo60 (built in)")
      ->required()
      ->type_name("FILE");
  AddCatalogueOption(*verb, flags->workloads);
  verb->add_option("--estimate", flags->estimate,
                   "memory told to CARMA: oracle (default), horus, faketensor, gpumemnet, none")
      ->type_name("NAME");
  verb->add_option("--memory", flags->memory,
                   "the N-th task says that it needs SIZE, as people do, in place of the estimate")
      ->type_name("N=SIZE");
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
}

void AddInfo(CLI::App& trace, Context& context) {
  std::shared_ptr<JobSource> flags;
  CLI::App* verb =
      AddSubVerb(trace, context, "info", "What a trace holds: sizes, durations, arrivals, demand",
                 flags, &RunTraceInfo);
  AddSourceOptions(*verb, *flags)->required();
  AddCatalogueOption(*verb, flags->workloads);
  verb->footer(
      "  carma trace info cluster_log.csv --json\n"
      "  tar xzOf trace-data.tar.gz trace-data/cluster_job_log | carma trace info -");
}

void AddWindow(CLI::App& trace, Context& context) {
  std::shared_ptr<WindowFlags> flags;
  CLI::App* verb =
      AddSubVerb(trace, context, "window",
                 "The jobs of a span of time, a virtual cluster or a user", flags, &RunTraceWindow);
  AddSourceOptions(*verb, flags->source)->required();
  AddCatalogueOption(*verb, flags->source.workloads);
  verb->add_option("--from", flags->from,
                   "submitted since: 36h, 2d after the start, or a date (default: the start)")
      ->type_name("TIME");
  verb->add_option("--to", flags->to, "submitted before that (default: the end)")
      ->type_name("TIME");
  verb->add_option("--vc", flags->vc, "only of this virtual cluster")->type_name("NAME");
  verb->add_option("--user", flags->user, "only of this user")->type_name("NAME");
  verb->add_option("--max-gpus", flags->max_gpus, "only jobs of at most so many GPUs")
      ->type_name("N")
      ->check(CLI::Range(1, trace::kMaxJobGpus));
  verb->footer("  carma trace window cluster_job_log --from 2017-10-09 --to 2017-10-16 > week.csv");
}

void AddSample(CLI::App& trace, Context& context) {
  std::shared_ptr<SampleFlags> flags;
  CLI::App* verb = AddSubVerb(trace, context, "sample",
                              "Jobs for a small server, arriving in the trace's pattern", flags,
                              &RunTraceSample);
  AddSourceOptions(*verb, flags->source)->required();
  AddCatalogueOption(*verb, flags->source.workloads);
  verb->add_option("--gpus", flags->gpus, "GPUs of the server (default: 4)")
      ->type_name("N")
      ->check(CLI::Range(1, trace::kMaxJobGpus));
  verb->add_option("--load", flags->load,
                   "GPU time submitted, as a share of what the server has (default: 1)")
      ->type_name("SHARE")
      ->check(CLI::Range(1e-6, 1e3));
  verb->add_option("--tasks", flags->tasks, "about so many jobs, instead of a load")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, trace::kMaxJobs));
  verb->add_flag("--scale-time", flags->scale_time,
                 "shorten or lengthen all gaps until the jobs bring that load");
  AddSeedOption(*verb, flags->seed);
  verb->footer(
      "  carma trace sample week.csv --gpus 4 --load 1.2 > small.csv\n"
      "  carma trace map week.csv | carma trace sample - --tasks 60 --load 4 --scale-time");
}

void AddMap(CLI::App& trace, Context& context) {
  std::shared_ptr<MapFlags> flags;
  CLI::App* verb = AddSubVerb(trace, context, "map",
                              "A task trace: every job becomes a workload of the catalogue", flags,
                              &RunTraceMap);
  flags->mix = kDefaultMix;
  AddSourceOptions(*verb, flags->source)->required();
  AddCatalogueOption(*verb, flags->source.workloads);
  verb->add_option(
          "--mix", flags->mix,
          std::string("shares of the classes, shortest jobs first (default: ") + kDefaultMix + ")")
      ->type_name("MIX");
  verb->add_flag("--keep-durations", flags->keep_durations,
                 "tasks last as long as their jobs did, not as long as their workloads");
  verb->add_option(
          "--users", flags->users,
          "whose the tasks are: the jobs' users (user, default), or their virtual clusters "
          "(vc)")
      ->check(CLI::IsMember({"user", "vc"}))
      ->type_name("WORD");
  AddSeedOption(*verb, flags->seed);
  verb->footer("  carma trace map small.csv --mix light=50,medium=40,heavy=10 > tasks.csv");
}

void AddGenerate(CLI::App& trace, Context& context) {
  std::shared_ptr<GenerateFlags> flags;
  CLI::App* verb = AddSubVerb(trace, context, "generate",
                              "A made-up trace of any length, fitted to a real one or to defaults",
                              flags, &RunTraceGenerate);
  AddSourceOptions(*verb, flags->fit, "--fit");
  AddCatalogueOption(*verb, flags->fit.workloads);
  verb->add_option("--tasks", flags->tasks, "how many jobs (default: 60)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, kMostGenerated));
  verb->add_option("--mean-gap", flags->mean_gap_s, "mean seconds between two submissions")
      ->type_name("S")
      ->check(CLI::Range(0.0, 1e7));
  verb->add_option("--max-gpus", flags->max_gpus, "only jobs of at most so many GPUs")
      ->type_name("N")
      ->check(CLI::Range(1, trace::kMaxJobGpus));
  AddSeedOption(*verb, flags->seed);
  verb->footer(
      "  carma trace generate --tasks 10000 --fit cluster_job_log --seed 7 > jobs.csv\n"
      "  carma trace generate --tasks 100 --max-gpus 2 | carma trace map - > tasks.csv");
}

void AddExport(CLI::App& trace, Context& context) {
  std::shared_ptr<ExportFlags> flags;
  CLI::App* verb =
      AddSubVerb(trace, context, "export", "A trace or the daemon's history as CSV, or as a script",
                 flags, &RunTraceExport);
  CLI::Option* file = AddSourceOptions(*verb, flags->source);
  verb->add_option("--from", "daemon: the tasks that it remembers (default: without a FILE)")
      ->type_name("daemon")
      ->check(CLI::IsMember({"daemon"}))
      ->excludes(file);
  verb->add_option("--user", flags->user, "of the daemon's tasks only this user's")
      ->type_name("NAME");
  AddCatalogueOption(*verb, flags->source.workloads);
  verb->add_option("--as", flags->as,
                   "jobs (CSV, default), tasks (CSV for replay and simulate) or script (sh)")
      ->type_name("FORM");
  verb->add_option("--estimate", flags->estimate,
                   "memory in the script: oracle (default), horus, faketensor, gpumemnet, none")
      ->type_name("NAME");
  verb->add_option("--command", flags->command,
                   "what the script submits; {workload}, {gpus}, {duration_s}, {n} are filled in")
      ->type_name("LINE");
  verb->footer(
      "  carma trace export > history.csv\n"
      "  carma trace export tasks.csv --as script > dispatch.sh\n"
      "  carma trace export tasks.csv --as script --command 'python {workload}.py'");
}

}  // namespace

void AddTraceCommand(CLI::App& app, Context& context) {
  CLI::App* trace = app.add_subcommand("trace", "Look at, cut, make up, replay and export traces");
  trace->require_subcommand(1);
  trace->footer(
      "Made traces go to standard output and say in their first lines where they come from:\n"
      "  carma trace window cluster_job_log --from 2017-10-09 --to 2017-10-16 |\n"
      "    carma trace sample - --gpus 4 | carma trace map - > tasks.csv\n"
      "Every verb also takes --json and --socket PATH.");
  AddInfo(*trace, context);
  AddWindow(*trace, context);
  AddSample(*trace, context);
  AddMap(*trace, context);
  AddGenerate(*trace, context);
  AddReplay(*trace, context);
  AddExport(*trace, context);
}

}  // namespace carma::cli
