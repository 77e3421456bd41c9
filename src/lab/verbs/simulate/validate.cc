// simulate validate: compares the simulator with published and measured figures.
#include <fmt/format.h>
#include <cstdint>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "cli/progress_line.h"
#include "cli/table.h"
#include "lab/sim/pairs.h"
#include "lab/sim/residency.h"
#include "lab/sim/validate.h"
#include "lab/verbs/lab.h"
#include "lab/verbs/simulate/experiment.h"
#include "lab/verbs/trace/files.h"

namespace carma::cli {
namespace {

using base::Json;

constexpr std::size_t kMaxTasksBytes = 1 << 20;
constexpr std::size_t kMaxPairsBytes = 64 << 20;

struct ValidateFlags {
  std::vector<std::string> traces;
  std::vector<std::string> tasks;
  std::vector<std::string> pairs;
  std::optional<base::Duration> least;  // minimum duration for a task to count
  std::string workloads;                // empty: the built-in catalogue
  int runs = 40;
  double noise = 0.03;
  std::uint64_t seed = 1;
};

// The comparisons for one trace or, without a trace, the tests of the models.
struct Part {
  std::string title;
  std::vector<sim::Comparison> comparisons;
};

// The task-by-task comparison for one measured run.
struct Replayed {
  std::string path;
  std::vector<sim::MeasuredTask> tasks;
  sim::Residency listed;   // with the catalogue's parameters
  sim::Residency guessed;  // as if the workloads were not measured
  double least_s = 0;      // shorter tasks do not count
};

// How well each slowdown formula fits one file's pairs under one sharing method.
struct Paired {
  std::string path;
  core::SharingMethod method{};
  std::size_t pairs = 0;
  std::vector<sim::PairAgreement> forms;
};

Result<Part> ValidateTrace(Context& context, const ValidateFlags& flags,
                           const trace::Catalogue& catalogue, const std::string& path) {
  // The published runs were measured on this kind of server.
  const sim::Cluster cluster = CARMA_TRY(sim::ParseCluster("dgx-station-a100"));
  const trace::TaskTrace trace = CARMA_TRY(LoadTaskTrace(path));
  const auto arrivals = CARMA_TRY(sim::Arrivals(trace, catalogue, path));
  const auto published = sim::RecognisePublished(arrivals);
  if (!published) {
    return Invalid(
        path +
        ": expected a trace of the published evaluation (60 or 90 tasks of heavy60, mix90 or t1)");
  }
  ProgressLine line(context, std::nullopt);
  const auto start = std::chrono::steady_clock::now();
  sim::ValidationOptions options{.runs = flags.runs, .noise = flags.noise, .seed = flags.seed};
  options.progress = [&](int done, int all) {
    const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - start);
    line.Show(fmt::format("{}: {}", sim::PublishedTraceName(*published),
                          ProgressBar(static_cast<double>(done) / all, elapsed)));
  };
  auto comparisons = sim::Validate(*published, cluster, arrivals, options);
  line.End();
  if (!comparisons) return std::unexpected(comparisons.error());
  return Part{fmt::format("{}: {} of each policy simulated, with {:g} % noise on durations",
                          sim::PublishedTraceName(*published), base::Counted(flags.runs, "run"),
                          flags.noise * 100),
              *std::move(comparisons)};
}

Result<Replayed> ReplayMeasured(const trace::Catalogue& catalogue, const std::string& path,
                                double least_s) {
  const std::string text = CARMA_TRY(ReadNamed(path, kMaxTasksBytes));
  auto tasks = CARMA_TRY(sim::ParseMeasuredTasks(text, path));
  auto listed =
      sim::ReplayResidency(tasks, catalogue, sim::Interference{}, sim::LoadAsListed, least_s);
  if (!listed) return base::Wrap(listed.error(), path);
  auto guessed =
      sim::ReplayResidency(tasks, catalogue, sim::Interference{}, sim::LoadAsGuessed, least_s);
  if (!guessed) return base::Wrap(guessed.error(), path);
  return Replayed{path, std::move(tasks), *std::move(listed), *std::move(guessed), least_s};
}

Result<std::vector<Paired>> ComparePairs(const std::string& path) {
  const std::string text = CARMA_TRY(ReadNamed(path, kMaxPairsBytes));
  const auto pairs = CARMA_TRY(sim::ParsePairs(text, path));
  std::vector<Paired> found;
  for (const auto& [method, of_method] : {std::pair(core::SharingMethod::kStreams, &pairs.streams),
                                          std::pair(core::SharingMethod::kMps, &pairs.mps)}) {
    if (of_method->empty()) continue;
    found.push_back({path, method, of_method->size(), sim::ComparePairs(method, *of_method)});
  }
  return found;
}

std::string PairsText(const Paired& paired, const Screen& screen) {
  Table table({{"SPEED BESIDE A NEIGHBOUR"}, {"FACTOR"}, {"MEAN ERROR", true}, {"R2", true}});
  for (const sim::PairAgreement& each : paired.forms) {
    table.Add({{each.form},
               {!each.factor  ? "-"
                : each.fitted ? "best for these pairs"
                              : "the simulator's"},
               {fmt::format("{:.3f}", each.mean_error)},
               {fmt::format("{:.2f}", each.r2)}});
  }
  const bool mps = paired.method == core::SharingMethod::kMps;
  return fmt::format("{}: {} {}\n\n", base::Printable(paired.path),
                     base::Counted(paired.pairs, "pair"),
                     mps ? "under MPS" : "that took turns (streams)") +
         table.Text(screen) + "\n";
}

std::string ReplayText(const Replayed& replayed, const Screen& screen) {
  const auto agreement = [](const char* name, const sim::Agreement& all) {
    return fmt::format("  {:<34} R2 {:.3f}, mean error {:.3f}\n", name, all.r2, all.mean_error);
  };
  Table table({{"TASK", true}, {"WORKLOAD"}, {"MEASURED", true}, {"MODEL", true}, {"GUESS", true}});
  for (std::size_t i = 0; i < replayed.tasks.size(); ++i) {
    const sim::MeasuredTask& task = replayed.tasks[i];
    table.Add({{std::to_string(task.number)},
               {base::Printable(task.workload_id, 40)},
               {fmt::format("{:.2f}", task.slowdown)},
               {fmt::format("{:.2f}", replayed.listed.predicted[i])},
               {fmt::format("{:.2f}", replayed.guessed.predicted[i])}});
  }
  return fmt::format(
             "{}: slowdown of {}, each with its actual neighbours; agreement (of log slowdown) for "
             "the {} that ran for at least {}\n",
             base::Printable(replayed.path), base::Counted(std::ssize(replayed.tasks), "task"),
             replayed.listed.counted.tasks,
             base::FormatSpan(base::Duration(std::llround(replayed.least_s * 1000)))) +
         agreement("catalogue parameters", replayed.listed.counted) +
         agreement("guessed parameters (unknown tasks)", replayed.guessed.counted) + "\n" +
         table.Text(screen) + "\n";
}

Json ComparisonJson(const sim::Comparison& each) {
  Json json = {{"policy", each.policy},
               {"figure", sim::FigureName(each.figure)},
               {"source", each.source},
               {"calibration", each.standing == sim::Standing::kCalibration},
               {"published", each.published},
               {"simulated", each.simulated},
               {"sd", each.deviation},
               {"low", each.low},
               {"high", each.high},
               {"agrees", each.Agrees()},
               {"within_noise", each.WithinNoise()}};
  if (each.from) json["from"] = *each.from;
  if (each.to) json["to"] = *each.to;
  return json;
}

Json PairsJson(const Paired& paired) {
  Json forms = Json::array();
  for (const sim::PairAgreement& each : paired.forms) {
    forms.push_back({{"form", each.form},
                     {"factor", each.factor ? Json(*each.factor) : Json(nullptr)},
                     {"fitted", each.fitted},
                     {"mean_error", each.mean_error},
                     {"r2", each.r2}});
  }
  return {{"path", paired.path},
          {"method", base::WordOf(paired.method)},
          {"pairs", paired.pairs},
          {"forms", std::move(forms)}};
}

std::string AllJson(const std::vector<Part>& parts, const std::vector<Replayed>& replays,
                    const std::vector<Paired>& pairs) {
  Json all = {{"parts", Json::array()}, {"replays", Json::array()}, {"pairs", Json::array()}};
  for (const Paired& paired : pairs) all["pairs"].push_back(PairsJson(paired));
  for (const Part& part : parts) {
    Json comparisons = Json::array();
    for (const sim::Comparison& each : part.comparisons)
      comparisons.push_back(ComparisonJson(each));
    all["parts"].push_back({{"title", part.title}, {"comparisons", std::move(comparisons)}});
  }
  for (const Replayed& replay : replays) {
    const auto agreement = [](const sim::Agreement& of) -> Json {
      return {{"r2", of.r2}, {"mean_error", of.mean_error}};
    };
    all["replays"].push_back({{"path", replay.path},
                              {"tasks", replay.tasks.size()},
                              {"counted", replay.listed.counted.tasks},
                              {"least_s", replay.least_s},
                              {"listed", agreement(replay.listed.counted)},
                              {"guessed", agreement(replay.guessed.counted)}});
  }
  return base::DumpJson(all) + "\n";
}

void RunValidate(Context& context, const ValidateFlags& flags) {
  const Result<trace::Catalogue> catalogue = LoadCatalogue(flags.workloads);
  if (!catalogue) return context.Fail(catalogue.error());
  std::vector<Part> parts{{"the models alone", sim::ValidateModels()}};
  for (const std::string& path : flags.traces) {
    Result<Part> part = ValidateTrace(context, flags, *catalogue, path);
    if (!part) return context.Fail(part.error());
    parts.push_back(*std::move(part));
  }
  const base::Duration least = flags.least.value_or(std::chrono::minutes(10));
  std::vector<Replayed> replays;
  for (const std::string& path : flags.tasks) {
    Result<Replayed> replayed = ReplayMeasured(*catalogue, path, base::Seconds(least));
    if (!replayed) return context.Fail(replayed.error());
    replays.push_back(*std::move(replayed));
  }
  std::vector<Paired> pairs;
  for (const std::string& path : flags.pairs) {
    Result<std::vector<Paired>> paired = ComparePairs(path);
    if (!paired) return context.Fail(paired.error());
    std::ranges::move(*paired, std::back_inserter(pairs));
  }
  const bool agrees = std::ranges::all_of(parts, [](const Part& part) {
    return std::ranges::all_of(part.comparisons, &sim::Comparison::Agrees);
  });
  if (!agrees) context.exit_code = kExitFailure;
  if (context.json) return Print(context, AllJson(parts, replays, pairs));
  std::string text;
  for (const Part& part : parts) text += part.title + "\n\n" + sim::Table(part.comparisons) + "\n";
  for (const Replayed& replayed : replays) text += ReplayText(replayed, ScreenOf(context.out));
  for (const Paired& paired : pairs) text += PairsText(paired, ScreenOf(context.out));
  text += agrees ? "All required figures agree.\n" : "Not all required figures agree.\n";
  Print(context, text);
}

}  // namespace

void AddSimulateValidate(Syntax simulate, Context& context) {
  // A shared_ptr is needed, because std::function must be copyable.
  auto flags = std::make_shared<ValidateFlags>();
  const Syntax verb =
      simulate.AddVerb("validate", "Compare the simulator with published and measured figures");
  const Option trace =
      verb.AddOption("--trace", "FILE", flags->traces,
                     "a trace of the published evaluation (heavy60, mix90, t1); may be repeated")
          .OneWord();
  const Option tasks = verb.AddOption("--tasks", "FILE", flags->tasks,
                                      "CSV of a measured run: task_no, workload_id, gpu, start_s, "
                                      "end_s, slowdown; may be repeated")
                           .OneWord();
  verb.AddSpan("--least", flags->least,
               "minimum run time for a --tasks task to count towards the agreement (default: 10m)")
      .Needs(tasks);
  verb.AddOption("--pairs", "FILE", flags->pairs,
                 "CSV of measured pairs: speed1, speed2 (relative to running alone), u1, m1, u2, "
                 "m2 (GPU and memory utilisation in percent when running alone), method (streams, "
                 "mps; default: streams); may be repeated")
      .OneWord();
  verb.AddOption("--workloads", "FILE", flags->workloads,
                 "catalogue of the tasks' workloads (default: the built-in one)");
  verb.AddOption("--runs", "N", flags->runs, "runs of each policy (default: 40)")
      .Range(1, kMaxSimRuns)
      .Needs(trace);
  verb.AddOption("--noise", "SIGMA", flags->noise,
                 "sigma of the random factor on durations (default: 0.03)")
      .Range(0.0, 1.0)
      .Needs(trace);
  verb.AddOption("--seed", "S", flags->seed, "seed of the first run (default: 1)")
      .Range(std::int64_t{0}, INT64_MAX)
      .Needs(trace);
  verb.Footer(
      "Without a trace, only the models are compared. Exit code: 1 if required figures disagree.\n"
      "  carma simulate validate --trace heavy60.csv --workloads catalog.csv");
  verb.OnRun([&context, flags] { RunValidate(context, *flags); });
  simulate.TakesVerb();
}

}  // namespace carma::cli
