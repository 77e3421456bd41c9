// estimate evaluate: measures the accuracy of the estimators on a data set.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <span>

#include "base/csv.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/table.h"
#include "core/values/interference.h"
#include "estimate/activity_guess.h"
#include "estimate/calibration.h"
#include "estimate/evaluate.h"
#include "estimate/gpumemnet.h"
#include "lab/verbs/evaluate/parts.h"
#include "lab/verbs/lab.h"

namespace carma::cli {
namespace {

using estimate::ClassScore;
using estimate::DataSet;
using estimate::Outcome;
using estimate::Run;
using estimate::Score;

Result<DataSet> Read(const EvaluateFlags& flags) {
  estimate::ReadOptions options{
      .summary_only = flags.summary_only, .torchinfo = flags.torchinfo, .exact = flags.exact};
  const bool catalogue = !flags.catalogue.empty();
  // The default optimizer for published data without an optimizer column
  // (docs/inside/estimators.md).
  const std::string usual = catalogue ? "adam" : "sgd-momentum";
  options.optimizer = estimate::ParseOptimizer(flags.optimizer.empty() ? usual : flags.optimizer);
  if (!options.optimizer) {
    return Invalid("--optimizer: '" + base::Printable(flags.optimizer, 40) +
                   "': expected sgd, sgd-momentum, adam or adamw");
  }
  if (!catalogue) {
    if (flags.layers.empty() || flags.measured.empty())
      return Invalid("expected --layers and --measured, or --catalogue, or --runs and --models");
    return estimate::ReadDataSet(flags.layers, flags.measured, options);
  }
  const std::string beside = std::filesystem::path(flags.catalogue).parent_path() / "summaries";
  return estimate::ReadCatalogue(flags.catalogue,
                                 flags.summaries.empty() ? beside : flags.summaries, options);
}

// The accuracy of SM activity guessed from multiply-adds, if the data set has measured values.
struct ActivityScore {
  std::size_t runs = 0;
  double mean_error = 0;
  double usual_error = 0;  // error of core::kUsualActivity for all runs
};

ActivityScore ScoreActivity(const DataSet& set) {
  ActivityScore score;
  for (const Run& run : set.runs) {
    const auto guess = estimate::GuessActivity(set.models[run.model]);
    if (!run.sm_active || !guess) continue;
    ++score.runs;
    score.mean_error += std::abs(guess->sm_active - *run.sm_active);
    score.usual_error += std::abs(core::kUsualActivity - *run.sm_active);
  }
  if (score.runs == 0) return score;
  score.mean_error /= static_cast<double>(score.runs);
  score.usual_error /= static_cast<double>(score.runs);
  return score;
}

// ---- as text ----

std::string TableOf(const std::vector<Evaluated>& all, const EvaluateFlags& flags) {
  Table table(TextsAndNumbers({"ESTIMATOR", "FAMILY"},
                              {"N", "MEAN ERR", "MEDIAN", "UNDER", ">5%", ">10%", "OVER", "1 GIB",
                               "8 GIB", "COVERED", "BOUND OVER", "NONE", "OOM SEEN"}));
  for (const Evaluated& each : all) {
    const Score& score = each.score;
    std::vector<Cell> row =
        ScoreRow(each.estimator, each,
                 {score.mean_error, score.median_error, score.under, score.under_5, score.under_10,
                  score.over, score.same_1gib, score.same_8gib, score.covered, score.bound_over});
    row.push_back({fmt::format("{}/{}", score.censored_above_card, score.censored)});
    table.Add(std::move(row));
  }
  return table.Text(ScreenOf(stdout)) +
         fmt::format(
             "\nShares in %. UNDER, >5%, >10%: predicted more than 0, 5 or 10 % below the "
             "measurement.\nOVER: mean over-prediction. 1 GIB, 8 GIB: prediction and measurement "
             "fall into the same class\nof this width. COVERED: runs within the {:g} % bound. "
             "BOUND OVER: mean excess of that bound.\nNONE: runs without a prediction. OOM SEEN: "
             "censored runs predicted above {} MiB; no other\ncolumn counts them.\n",
             100 * flags.coverage, flags.card_mib);
}

std::string ClassesOf(const Evaluated& each) {
  std::string text;
  for (const ClassScore& score : each.classes) {
    text += fmt::format(
        "\n{}{}, classes of {} MiB, {}: accuracy {:.1f}, precision {:.1f}, recall {:.1f}, F1 "
        "{:.1f} % (means over the classes that occur)\n",
        each.estimator, each.family.empty() ? "" : ", " + each.family, score.width_mib,
        base::Counted(score.runs, "run"), 100 * score.accuracy, 100 * score.precision,
        100 * score.recall, 100 * score.f1);
    std::vector<Column> columns{{"MEASURED"}};
    for (const int index : score.classes) columns.push_back({std::to_string(index), true});
    Table table(columns);
    for (std::size_t i = 0; i < score.classes.size(); ++i) {
      std::vector<Cell> row{{std::to_string(score.classes[i])}};
      for (const std::size_t count : score.confusion[i]) row.push_back({std::to_string(count)});
      table.Add(std::move(row));
    }
    text += table.Text(Screen{});
  }
  return text;
}

std::string RowsOf(const std::string& name, const DataSet& set,
                   const std::vector<Outcome>& outcomes) {
  std::string text;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Run& run = set.runs[i];
    if (run.censored || !outcomes[i].answer) continue;
    text +=
        fmt::format("{},{},{},{},{},{}\n", name, base::CsvCell(run.name), run.batch,
                    run.measured_mib, outcomes[i].answer->point_mib, outcomes[i].answer->bound_mib);
  }
  return text;
}

// The results of all chosen estimators.
struct Evaluation {
  std::vector<Evaluated> all;
  std::string rows;  // for --rows, without the header
};

Result<Evaluation> EvaluateAll(const std::vector<const estimate::EstimatorEntry*>& chosen,
                               const DataSet& set, const std::optional<estimate::Site>& site,
                               const EvaluateFlags& flags) {
  Evaluation done;
  for (const estimate::EstimatorEntry* entry : chosen) {
    const auto estimator = CARMA_TRY(estimate::MakeWithWeights(*entry, flags.weights));
    std::vector<Outcome> outcomes =
        AnswersOf(*estimator, set, flags.coverage, site ? &*site : nullptr);
    if (!flags.leave_out.empty()) {
      std::vector<estimate::LeftOut> families;
      for (const Run& run : set.runs) families.push_back({run.family});
      outcomes = estimate::LeaveOut(outcomes, families, flags.coverage);
    }
    const std::string name(entry->name);
    if (flags.rows) done.rows += RowsOf(name, set, outcomes);
    std::map<std::string, std::vector<Outcome>> groups{{"", outcomes}};
    if (!flags.by.empty()) {
      for (std::size_t i = 0; i < outcomes.size(); ++i)
        groups[set.runs[i].family].push_back(outcomes[i]);
    }
    for (const auto& [family, of_family] : groups) {
      done.all.push_back({name, family, estimate::ScoreOf(of_family, flags.card_mib),
                          estimate::ClassScoresOf(of_family)});
    }
  }
  return done;
}

std::string TextOf(const std::vector<Evaluated>& all, const DataSet& set,
                   const std::optional<estimate::Site>& site, const ActivityScore& activity,
                   const EvaluateFlags& flags) {
  std::string text = base::Counted(std::ssize(set.runs), "run") + " of " +
                     base::Counted(std::ssize(set.models), "model");
  if (set.without_model > 0) text += fmt::format("; {} more have no layer list", set.without_model);
  if (site) {
    text += fmt::format("; context shifted by {:.0f} MiB, learned from {} of '{}': {}",
                        site->context_shift_mib, base::Counted(site->tasks, "task"),
                        flags.calibrate, site->reason);
  }
  text += "\n\n" + TableOf(all, flags);
  for (const Evaluated& each : all) text += ClassesOf(each);
  if (activity.runs > 0) {
    text += fmt::format(
        "\nSM activity of {} from multiply-adds: mean error {:.3f} ({:.3f} when {} is "
        "assumed for all)\n",
        base::Counted(activity.runs, "run"), activity.mean_error, activity.usual_error,
        core::kUsualActivity);
  }
  return text;
}

// The options that may accompany --runs, and those that may accompany `--calibrate each`.
constexpr std::string_view kOfRuns[] = {"runs", "models", "by", "leave-out", "rows", "coverage"};
constexpr std::string_view kOfEachFamily[] = {"layers",    "measured",  "catalogue",    "summaries",
                                              "optimizer", "calibrate", "summary-only", "torchinfo",
                                              "exact",     "coverage"};

void RunEvaluate(Context& context, Syntax verb, const EvaluateFlags& flags) {
  const bool of_runs = !flags.runs.empty() || !flags.models.empty();
  if (of_runs || flags.calibrate == kEachFamily) {
    std::span<const std::string_view> used = kOfEachFamily;
    if (of_runs) used = kOfRuns;
    for (const auto& [name, value] : verb.GivenOptions()) {
      if (std::ranges::count(used, name) > 0) continue;
      const char* const use = of_runs ? "--runs" : "--calibrate each";
      return context.Fail(Invalid("--{} cannot be combined with {}", name, use).error());
    }
  }
  if (of_runs) return EvaluateRuns(context, flags);
  for (const auto& [option, fields] :
       {std::pair("--by", &flags.by), std::pair("--leave-out", &flags.leave_out)}) {
    if (fields->empty() || *fields == "family") continue;
    return context.Fail(Invalid("{}: '{}': expected family (other fields need --runs)", option,
                                base::Printable(*fields, 40))
                            .error());
  }
  const auto chosen = base::Wrap(estimate::ChosenEstimators(flags.estimators), "--estimator");
  if (!chosen) return context.Fail(chosen.error());
  const Result<DataSet> set = Read(flags);
  if (!set) return context.Fail(NamedWrongly(set.error()));
  if (flags.calibrate == kEachFamily) return EvaluateCalibration(context, *set, flags.coverage);
  std::optional<estimate::Site> site;
  if (!flags.calibrate.empty()) {
    const Result<estimate::Site> learned = LearnFrom(*set, flags.calibrate);
    if (!learned) return context.Fail(learned.error());
    site = *learned;
  }
  Result<Evaluation> done = EvaluateAll(*chosen, *set, site, flags);
  if (!done) return context.Fail(done.error());
  if (flags.rows)
    return Print(context, "estimator,model,batch,measured_mib,point_mib,bound_mib\n" + done->rows);
  // Excludes estimators that do not apply to this kind of data (given, history).
  std::erase_if(done->all, [](const Evaluated& each) {
    return each.score.runs == 0 && each.score.censored_answered == 0;
  });
  const ActivityScore activity = ScoreActivity(*set);
  if (!context.json) return Print(context, TextOf(done->all, *set, site, activity, flags));
  base::Json json = EvaluationJson(done->all, set->runs.size(), set->without_model, flags.coverage);
  json["activity"] = {{"runs", activity.runs},
                      {"mean_error", activity.mean_error},
                      {"usual_error", activity.usual_error}};
  Print(context, base::DumpJson(json) + "\n");
}

}  // namespace

base::Json ScoreJson(const Score& score) {
  return {{"n", score.runs},
          {"unanswered", score.unanswered},
          {"censored", score.censored},
          {"censored_above_card", score.censored_above_card},
          {"mape", score.mean_error},
          {"median_error", score.median_error},
          {"p90_error", score.p90_error},
          {"under", score.under},
          {"under_5", score.under_5},
          {"under_10", score.under_10},
          {"over", score.over},
          {"accuracy_1gib", score.same_1gib},
          {"accuracy_8gib", score.same_8gib},
          {"coverage", score.covered},
          {"bound_over", score.bound_over}};
}

base::Json EvaluationJson(const std::vector<Evaluated>& all, std::size_t runs,
                          std::size_t without_model, double coverage) {
  base::Json estimators = base::Json::array();
  for (const Evaluated& each : all) {
    base::Json& json = estimators.emplace_back(ScoreJson(each.score));
    json["estimator"] = each.estimator;
    json["family"] = each.family;
    if (!each.memory.empty()) json["memory"] = each.memory;
    if (!each.asked.empty()) json["asked"] = each.asked;
    json["classes"] = base::Json::array();
    for (const ClassScore& classes : each.classes) {
      json["classes"].push_back({{"width_mib", classes.width_mib},
                                 {"n", classes.runs},
                                 {"accuracy", classes.accuracy},
                                 {"precision", classes.precision},
                                 {"recall", classes.recall},
                                 {"f1", classes.f1},
                                 {"indices", classes.classes},
                                 {"confusion", classes.confusion}});
    }
  }
  return {{"runs", runs},
          {"without_model", without_model},
          {"coverage", coverage},
          {"estimators", std::move(estimators)}};
}

std::vector<Cell> ScoreRow(const std::string& first, const Evaluated& each,
                           const std::vector<std::optional<double>>& shares) {
  std::vector<Cell> row{
      {first}, {each.family.empty() ? "all" : each.family}, {std::to_string(each.score.runs)}};
  for (const std::optional<double> share : shares)
    row.push_back({share && each.score.runs > 0 ? fmt::format("{:.1f}", 100 * *share) : "-"});
  row.push_back({std::to_string(each.score.unanswered)});
  return row;
}

void AddEvaluateCommand(Syntax estimate, Context& context) {
  const Syntax verb = estimate.AddVerb("evaluate", "Compare the estimators with measured runs");
  verb.Footer(
      "  carma estimate evaluate --layers layers.jsonl.gz --measured measured.csv --by family\n"
      "  carma estimate evaluate --catalogue catalog.csv --calibrate light\n"
      "  carma estimate evaluate --runs runs.csv --models models.csv --by source,method\n"
      "Layer lists: one model per line (docs/use/layer-lists.md), gzip or plain. Measurements: CSV "
      "with\n"
      "model, batch, measured_mib and optionally censored, optimizer, precision, family.\n"
      "Catalogue: CSV with batch_size, gpus, summary_file and memory_mib_run60, _thesis or _rad2.\n"
      "Transformer runs: CSV with the columns in docs/inside/estimators.md, \"Tables of "
      "runs\"; they need a\n"
      "model table, but no summaries. Batch sweeps (gpu, benchmark, batch, mem_mib_median)\n"
      "need neither and take --by benchmark.\n"
      "Every verb also takes --json and --socket PATH.");
  auto flags = std::make_shared<EvaluateFlags>();
  const Option layers =
      verb.AddOption("--layers", "FILE", flags->layers, "the models' layer lists");
  const Option measured =
      verb.AddOption("--measured", "FILE", flags->measured, "measurements of the same models");
  const Option catalogue =
      verb.AddOption("--catalogue", "FILE", flags->catalogue,
                     "task descriptions with summaries, instead of --layers and --measured")
          .Excludes(layers)
          .Excludes(measured);
  verb.AddOption("--runs", "FILE", flags->runs,
                 "tables of measured runs, instead of layer lists; may be repeated");
  verb.AddOption("--models", "FILE", flags->models, "model sizes for --runs; may be repeated");
  verb.AddOption("--summaries", "DIR", flags->summaries,
                 "summaries folder (default: summaries next to the catalogue)")
      .Needs(catalogue);
  verb.AddOption("-e,--estimator", "LIST", flags->estimators,
                 "only these estimators (default: all)");
  verb.AddOption("--optimizer", "NAME", flags->optimizer,
                 "optimizer for rows without one (default: sgd-momentum; adam for a catalogue)");
  verb.AddOption("--weights", "DIR", flags->weights,
                 "folder with weights for the gpumemnet estimators (default: the shipped ones)");
  verb.AddOption(
      "--calibrate", "FAMILY", flags->calibrate,
      "learn the constant offset from this family's runs; each: from every family in turn");
  verb.AddOption(
      "--by", "LIST", flags->by,
      "add a row per family; with --runs, also per source, model, method, quantisation, parallel "
      "or gpus");
  verb.AddOption("--leave-out", "LIST", flags->leave_out,
                 "predict each of these groups from the other groups only");
  verb.AddFlag("--summary-only", flags->summary_only,
               "describe models as torchsummary does, without input shapes");
  verb.AddFlag("--torchinfo", flags->torchinfo,
               "describe models as torchinfo does by default: three levels and no input shapes");
  verb.AddFlag("--exact", flags->exact,
               "use the bytes counted in a dry run instead of computing them");
  verb.AddFlag("--rows", flags->rows,
               "print the predictions as CSV instead, except those for censored runs");
  verb.AddOption("--coverage", "SHARE", flags->coverage,
                 "share of runs the bound should cover (default: 0.95)")
      .Range(0.5, 0.999);
  verb.AddOption("--card", "MIB", flags->card_mib,
                 "usable memory of the GPU used for the measurements (default: 39500)")
      .Positive();
  verb.OnRun([&context, verb, flags] { RunEvaluate(context, verb, *flags); });
}

}  // namespace carma::cli
