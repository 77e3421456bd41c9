// simulate: runs a load on simulated servers under several policies.
#include <fmt/format.h>
#include <cstdint>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "lab/sim/matrix.h"
#include "lab/sim/model_words.h"
#include "lab/sim/reservation_words.h"
#include "lab/verbs/lab.h"
#include "lab/verbs/simulate/experiment.h"
#include "lab/verbs/simulate/text.h"
#include "lab/verbs/trace/files.h"
#include "report/html.h"
#include "report/report.h"
#include "report/result.h"

namespace carma::cli {
namespace {

constexpr std::size_t kMaxExperimentBytes = 1 << 20;
constexpr int kMaxThreads = 1024;

struct SimulateFlags {
  std::string experiment;  // empty: no experiment file
  SimLoad load;            // from the flags, otherwise from the file, otherwise the defaults
  std::vector<std::string> policies;
  std::string model;  // comma-separated keywords
  // Options that apply to every policy; empty if not set.
  std::string estimator, history, collocation, published;
  int threads = 0;  // 0: one per core
  bool csv = false;
  bool record = false;
  std::string html;  // path of the HTML report; empty: none
};

// The validated input of the command.
struct Prepared {
  SimLoad load;
  sim::Cluster cluster;
  trace::Catalogue catalogue;  // the arrivals point into it
  std::vector<sim::Arrival> arrivals;
  std::vector<SimPolicy> policies;
};

// Reads the plan from the file and overrides it with the command-line flags.
Result<Experiment> ReadPlan(Syntax verb, const SimulateFlags& flags) {
  Experiment experiment;
  if (!flags.experiment.empty()) {
    const std::string text = CARMA_TRY(ReadNamed(flags.experiment, kMaxExperimentBytes));
    if (Result<Unit> read = ReadExperiment(flags.experiment, text, experiment); !read) {
      if (flags.experiment.ends_with(".csv"))
        return Invalid("{}: expected an experiment file (TOML); use --trace for a trace",
                       base::Printable(flags.experiment, 200));
      return std::unexpected(read.error());
    }
  }
  const auto take = [&](std::string_view option, auto SimLoad::*value) {
    if (verb.Given(fmt::format("--{}", option))) experiment.load.*value = flags.load.*value;
  };
  for (const auto& [name, value] : kSimTexts) take(name, value);
  take("runs", &SimLoad::runs);
  take("noise", &SimLoad::noise);
  take("seed", &SimLoad::seed);
  take("slowdown-limit", &SimLoad::slowdown_limit);
  take("reserve", &SimLoad::reserve);
  for (std::size_t i = 0; i < flags.policies.size(); ++i) {
    const std::string where =
        flags.policies.size() == 1 ? "--policy" : fmt::format("--policy {}", i + 1);
    experiment.policies.push_back(CARMA_TRY(SplitPolicy(flags.policies[i], where)));
  }
  if (!flags.model.empty()) {
    auto words = CARMA_TRY(SplitPolicy(flags.model, "--model"));
    std::ranges::move(words, std::back_inserter(experiment.load.model));
  }
  const auto add = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    experiment.common.push_back({key, value, std::string("--") + key});
  };
  add("estimator", flags.estimator);
  add("history", flags.history);
  add("collocation", flags.collocation);
  add("published", flags.published);
  return experiment;
}

Result<config::Settings> BaseSettings(const std::string& path) {
  if (path.empty()) return config::Settings{};
  config::Sources sources;
  sources.files.emplace_back(path, false);
  config::Loaded loaded = CARMA_TRY(config::Load(sources));
  return std::move(loaded.settings);
}

// Returns the sharing method set by the keywords, or the two that a daemon chooses between if they
// set none.
std::vector<std::string> MethodsOf(const std::vector<PolicyWord>& words) {
  std::vector<std::string> methods{"mps", "streams"};
  for (const PolicyWord& word : words) {
    if (word.key == "collocation" && word.value != "exclusive") methods = {word.value};
  }
  return methods;
}

Result<std::vector<SimPolicy>> MakePolicies(const Experiment& experiment) {
  const config::Settings settings = CARMA_TRY(BaseSettings(experiment.load.config));
  std::vector<PolicyWord> first;
  if (settings.collocation) {
    first.push_back({"collocation", std::string(config::CollocationName(*settings.collocation)),
                     experiment.load.config});
  }
  first.insert(first.end(), experiment.common.begin(), experiment.common.end());
  const std::vector<std::vector<PolicyWord>> all =
      experiment.policies.empty()
          ? DefaultPolicies(MethodsOf(first),
                            settings.mapper == "exclusive" &&
                                std::ranges::find(first, "mapper", &PolicyWord::key) == first.end())
          : experiment.policies;
  std::vector<SimPolicy> policies;
  for (const std::vector<PolicyWord>& own : all) {
    std::vector<PolicyWord> words = first;
    // The baseline uses whole GPUs even if the configuration sets MIG.
    if (experiment.policies.empty() && &own == &all.front())
      std::erase_if(words, [](const PolicyWord& word) {
        return word.key == "collocation" && word.value == "mig";
      });
    words.insert(words.end(), own.begin(), own.end());
    SimPolicy policy = CARMA_TRY(MakePolicy(settings, words));
    CARMA_TRY(ApplyModel(experiment.load.model, policy));
    policy.options.noise = experiment.load.noise;
    policy.options.seed = experiment.load.seed;
    policy.options.slowdown_limit = experiment.load.slowdown_limit;
    for (const std::string& text : experiment.load.reserve) {
      Result<core::Reservation> booking = sim::ParseReservation(text);
      if (!booking) return base::Wrap(booking.error(), "reserve");
      policy.options.reservations.push_back(*std::move(booking));
    }
    // Names must differ, because reports merge runs with the same name.
    if (std::ranges::count(policies, policy.label, &SimPolicy::label) > 0) {
      return Invalid("{}: two policies are called '{}'; give one of them a label=",
                     words.back().where, base::Printable(policy.label, 80));
    }
    policies.push_back(std::move(policy));
  }
  return policies;
}

// "auto" and "history" do not need summaries.
bool NeedsSummaries(const SimPolicy& policy) {
  const std::string& method = policy.options.estimates.method;
  return !method.empty() && method != "auto" && method != "history";
}

Result<Unit> GiveSummaries(Context& context, const SimLoad& load, const trace::Catalogue& catalogue,
                           std::vector<SimPolicy>& policies) {
  if (load.summaries.empty()) {
    const auto needy = std::ranges::find_if(policies, NeedsSummaries);
    if (needy == policies.end()) return Unit{};
    return Invalid("estimator {} needs model summaries; specify their folder with --summaries",
                   needy->options.estimates.method);
  }
  LoadedSummaries loaded = CARMA_TRY(LoadSummaries(catalogue, load.summaries));
  for (const std::string& trouble : loaded.troubles)
    Warn(context, "summaries: " + base::Printable(trouble));
  const auto shared = std::make_shared<const sim::Summaries>(std::move(loaded.by_workload));
  for (SimPolicy& policy : policies) policy.options.estimates.summaries = shared;
  return Unit{};
}

Result<Prepared> Prepare(Context& context, Syntax verb, const SimulateFlags& flags) {
  Experiment experiment = CARMA_TRY(ReadPlan(verb, flags));
  const SimLoad& load = experiment.load;
  Result<sim::Cluster> cluster = sim::ParseCluster(load.server);
  if (!cluster) return base::Wrap(cluster.error(), "server");
  trace::TaskTrace trace = CARMA_TRY(LoadTaskTrace(load.trace));
  trace::Catalogue catalogue = CARMA_TRY(LoadCatalogue(load.workloads));
  std::vector<SimPolicy> policies = CARMA_TRY(MakePolicies(experiment));
  CARMA_TRY(GiveSummaries(context, load, catalogue, policies));
  for (const SimPolicy& policy : policies)
    CARMA_TRY(catalogue.CheckEstimates(policy.options.estimates.source));
  Prepared prepared{.load = load,
                    .cluster = *std::move(cluster),
                    .catalogue = std::move(catalogue),
                    .policies = std::move(policies)};
  auto arrivals = sim::Arrivals(trace, prepared.catalogue, load.trace);
  if (!arrivals) {
    const char* hint = load.workloads.empty() ? " (specify its catalogue with --workloads)" : "";
    return Fail(arrivals.error().code, arrivals.error().message + hint);
  }
  prepared.arrivals = *std::move(arrivals);
  return prepared;
}

// Simulates every run of every policy and shows progress on one line.
Result<std::vector<SimOutcome>> RunAll(Context& context, const Prepared& prepared, int threads) {
  const SimLoad& load = prepared.load;
  std::vector<sim::RunOptions> options;
  for (const SimPolicy& policy : prepared.policies) options.push_back(policy.options);
  const std::size_t total = options.size() * static_cast<std::size_t>(load.runs);
  ProgressLine line(context, std::nullopt);
  const auto start = std::chrono::steady_clock::now();
  const auto done = [&](std::size_t finished) {
    const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    line.Show(fmt::format(
        "{} {} of {}",
        ProgressBar(static_cast<double>(finished) / static_cast<double>(total), elapsed), finished,
        base::Counted(total, "run")));
  };
  auto runs =
      sim::SimulateMatrix(prepared.cluster, prepared.arrivals, options, load.runs, threads, done);
  line.End();
  if (!runs) return std::unexpected(runs.error());
  std::vector<SimOutcome> outcomes;
  for (std::size_t i = 0; i < runs->size(); ++i) {
    SimOutcome& outcome = outcomes.emplace_back();
    outcome.policy = prepared.policies[i];
    outcome.runs = std::move((*runs)[i]);
    for (std::size_t run = 0; run < outcome.runs.size(); ++run) {
      outcome.runs[run].label = outcome.policy.label;
      outcome.runs[run].seed = load.seed + run;
      outcome.runs[run].provenance = OneRunLine(load, outcome.policy, load.seed + run);
    }
  }
  return outcomes;
}

// Builds a report of each run. With `records`, simulates the first run of each policy again to add
// its full record, which the figures need.
Result<std::vector<report::Report>> ReportsOf(const Prepared& prepared,
                                              std::vector<SimOutcome> outcomes, bool records) {
  std::vector<report::Report> reports;
  for (SimOutcome& outcome : outcomes) {
    for (report::Metrics& metrics : outcome.runs) {
      report::Report& report = reports.emplace_back();
      if (records && &metrics == outcome.runs.data()) {
        auto recorded = CARMA_TRY(
            sim::SimulateRecorded(prepared.cluster, prepared.arrivals, outcome.policy.options));
        report.run = std::move(recorded.run);
        report.run->label = metrics.label;
        report.run->provenance = metrics.provenance;
      }
      report.metrics = std::move(metrics);
    }
  }
  return reports;
}

std::string ReportsJson(const std::vector<report::Report>& reports) {
  std::string text = "[";
  for (const report::Report& report : reports)
    text += (text.size() == 1 ? "" : ",\n") + report::ToJsonText(report);
  return text + "]\n";
}

std::string BoundsText(const std::vector<report::Bound>& bounds) {
  std::vector<std::string> texts;
  for (const report::Bound& bound : bounds)
    texts.push_back(fmt::format("{} {:.0f} min", bound.name, bound.makespan_s / 60));
  return base::Join(texts, ", ");
}

std::string ResultOf(const std::vector<SimOutcome>& outcomes) {
  std::vector<report::Metrics> runs;
  for (const SimOutcome& outcome : outcomes)
    runs.insert(runs.end(), outcome.runs.begin(), outcome.runs.end());
  return base::Printable(report::ResultSentence(runs), 1000);
}

void PrintTable(Context& context, const Prepared& prepared,
                const std::vector<SimOutcome>& outcomes) {
  const SimLoad& load = prepared.load;
  std::string text = fmt::format(
      "Simulated: {} of {} on {}, {} each", base::Counted(std::ssize(prepared.arrivals), "task"),
      base::Printable(load.trace, 80), load.server, base::Counted(load.runs, "run"));
  if (load.noise > 0) text += fmt::format(", {:g} % noise on durations", load.noise * 100);
  const Screen screen = ScreenOf(context.out);
  text = WrapTo(ResultOf(outcomes), screen) + "\n\n" + WrapTo(text, screen);
  text += "\n\n" + SimTable(outcomes, screen);
  if (load.runs > 1)
    text += "\n± is the standard deviation over runs; ~ marks changes within the noise.";
  if (!outcomes.front().runs.front().bounds.empty()) {
    text += WrapTo(
        fmt::format("\nLower bounds on the total time{}: {} (exclusive area: without collocation)",
                    load.noise > 0 ? " without noise" : "",
                    BoundsText(outcomes.front().runs.front().bounds)),
        screen);
  }
  text += "\n\nTo repeat:\n  " + ReproductionLine(load, prepared.policies) + "\n";
  Print(context, text);
}

bool RunsAreAlike(const SimOutcome& outcome) {
  const report::Metrics& first = outcome.runs.front();
  return std::ranges::all_of(outcome.runs, [&](const report::Metrics& run) {
    return run.trace_total_s == first.trace_total_s && run.jct.mean == first.jct.mean;
  });
}

void RunSimulate(Context& context, Syntax verb, const SimulateFlags& flags) {
  if (flags.record && !context.json) return context.Fail(Invalid("--record: needs --json").error());
  const Result<Prepared> prepared = Prepare(context, verb, flags);
  if (!prepared) return context.Fail(prepared.error());
  Result<std::vector<SimOutcome>> outcomes = RunAll(context, *prepared, flags.threads);
  if (!outcomes) return context.Fail(outcomes.error());
  std::vector<std::string> idle;
  for (const SimOutcome& outcome : *outcomes) {
    if (NoTaskRan(outcome)) idle.push_back(outcome.policy.label);
  }
  if (!idle.empty())
    Warn(context,
         "no task ran under " + base::Join(idle, ", ") + "; --json --record gives the reasons");
  if (prepared->load.runs > 1 && std::ranges::all_of(*outcomes, RunsAreAlike))
    Warn(context, "all runs of a policy are the same; --noise varies the tasks' durations");
  if (!context.json && !flags.csv) PrintTable(context, *prepared, *outcomes);
  const bool records = !flags.html.empty() || flags.record;
  const auto reports = ReportsOf(*prepared, *std::move(outcomes), records);
  if (!reports) return context.Fail(reports.error());
  if (context.json) {
    Print(context, ReportsJson(*reports));
  } else if (flags.csv) {
    std::vector<report::Metrics> metrics;
    for (const report::Report& report : *reports) metrics.push_back(report.metrics);
    Print(context, report::RunsCsv(metrics));
  }
  if (flags.html.empty()) return;
  const std::string title =
      "Simulated: " + base::Printable(prepared->load.trace, 80) + " on " + prepared->load.server;
  if (Result<Unit> written = base::WriteFileAtomic(flags.html, report::Html(*reports, title));
      !written) {
    return context.Fail(written.error());
  }
}

std::string Footer() {
  std::string text =
      "A policy is a list of keywords: the mapper and keys from the configuration sections\n"
      "policy, fair, limits, slots, reserve and recovery. Also:\n";
  for (const PolicyWordInfo& word : PolicyWords())
    text += fmt::format("  {:<18}{} ({})\n", word.name, word.meaning, word.type);
  text += "Keywords for --model, with their defaults:\n";
  for (const sim::ModelWord& word : sim::ModelWords())
    text += fmt::format("  {:<20}{} ({})\n", word.name, word.meaning, word.type);
  text += "Servers (or shapes like '4xA100-40GB,2xH100-80GB' or '16 * 8xH100-80GB'):\n";
  for (const sim::ServerName& server : sim::ServerNames())
    text += fmt::format("  {:<18}{}\n", server.name, server.shape);
  return text +
         "  carma simulate --runs 20 --noise 0.03 --policy exclusive \\\n"
         "    --policy magm,sm_cap=0.8,estimator=gpumemnet --policy lug,sm_cap=false --html "
         "out.html\n"
         "  carma simulate --config /etc/carma/carma.toml --trace last-month.csv";
}

}  // namespace

void AddSimulateCommand(Syntax app, Context& context) {
  // A shared_ptr is needed, because std::function must be copyable.
  auto flags = std::make_shared<SimulateFlags>();
  const Syntax verb =
      app.AddVerb("simulate", "Simulate this server's load under other policies within seconds");
  verb.AddOption("experiment", "FILE", flags->experiment,
                 "TOML file that describes the load and the policies");
  SimLoad& load = flags->load;
  verb.AddOption("--trace", "FILE", load.trace,
                 "trace of tasks and their submission times (default: the built-in demo60)");
  verb.AddOption("--workloads", "FILE", load.workloads,
                 "catalogue of the trace's workloads (default: the built-in one)");
  verb.AddOption("--summaries", "DIR", load.summaries,
                 "folder of the workloads' model summaries, for estimators that need them");
  verb.AddOption("--server", "SERVER", load.server,
                 "server name or shape (default: dgx-station-a100)");
  verb.AddOption("--config", "FILE", load.config, "base configuration file for every policy");
  verb.AddOption("--policy", "WORDS", flags->policies,
                 "policy as comma-separated keywords; repeat to compare others with the first")
      .OneWord();
  verb.AddOption("--model", "WORDS", flags->model,
                 "comma-separated simulation settings for all policies");
  verb.AddOption("--estimator", "NAME", flags->estimator,
                 "estimator for policies that set none: auto (default), oracle, none, horus, …");
  verb.AddOption(
      "--history", "WORD", flags->history,
      "what estimates learn from: none, run (tasks of the same run; default), runs (tasks of "
      "this and earlier runs)");
  verb.AddOption("--collocation", "METHOD", flags->collocation,
                 "collocation for policies that set none: mps (default), streams, mig, exclusive");
  verb.AddOption("--published", "ERA", flags->published,
                 "use the published system's rules and pauses in all policies: thesis or v2");
  verb.AddOption("--runs", "N", load.runs,
                 "runs of each policy, with consecutive seeds (default: 1)")
      .Range(1, kMaxSimRuns);
  verb.AddOption("--noise", "SIGMA", load.noise,
                 "sigma of the random factor on durations, such as 0.03 (default: 0)")
      .Range(0.0, 1.0);
  verb.AddOption("--seed", "S", load.seed, "seed of the first run (default: 1)")
      .Range(std::int64_t{0}, INT64_MAX);
  verb.AddOption("--slowdown-limit", "TIMES", load.slowdown_limit,
                 "also show bounds for policies that slow no task down by more than this factor, "
                 "such as 2.5")
      .Range(1.0, kMaxSlowdownLimit);
  verb.AddOption("--reserve", "WORDS", load.reserve,
                 "GPUs reserved on each server, in carma reserve syntax: \"for=ada gpus=0,1 "
                 "from=9h for-time=8h repeat=weekdays\"; times count from the first submission, "
                 "which is taken as midnight on a Monday")
      .OneWord();
  verb.AddOption("--threads", "N", flags->threads,
                 "number of parallel runs (default: one per core)")
      .Range(1, kMaxThreads);
  verb.AddFlag("--csv", flags->csv, "print one line per run instead of the table");
  verb.AddFlag("--record", flags->record,
               "with --json: include the full record of each policy's first run, for carma report");
  verb.AddOption("--html", "FILE", flags->html, "also write a report with figures");
  verb.Footer(Footer());
  AddSimulateValidate(verb, context);
  verb.OnRun([&context, verb, flags] {
    if (!verb.VerbGiven()) RunSimulate(context, verb, *flags);
  });
}

}  // namespace carma::cli
