// estimate evaluate --runs: tables of measured runs, or of sweeps over batch sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/client/verbs.h"
#include "cli/table.h"
#include "estimate/evaluate.h"
#include "estimate/sweeps.h"
#include "estimate/transformer/peak.h"
#include "estimate/transformer/runs.h"
#include "lab/verbs/evaluate/parts.h"

namespace carma::cli {
namespace {

using estimate::MemoryKind;
using estimate::Outcome;
using estimate::SweepAnswer;
using estimate::SweepPoint;
using estimate::SweepQuestion;
using estimate::TrainingRun;
using estimate::TrainingRuns;
using estimate::TransformerEstimate;

// Outcomes by kind (MemoryKind or SweepQuestion) and by group of runs. The group with an empty name
// contains all runs.
template <class Kind>
using Groups = std::map<std::pair<Kind, std::string>, std::vector<Outcome>>;

const estimate::MemoryBound& BoundOf(const TransformerEstimate& estimate, MemoryKind kind) {
  if (kind == MemoryKind::kAllocated) return estimate.needed;
  return kind == MemoryKind::kReserved ? estimate.reserved : estimate.shown;
}

Result<TransformerEstimate> Ask(const TrainingRuns& runs, const TrainingRun& run, double coverage) {
  if (!run.plan) return std::unexpected(run.plan.error());
  return estimate::EstimateTransformer(runs.configs[run.config], *run.plan, coverage);
}

// How well one kind of memory was predicted for one run, and the groups that the run belongs to.
struct Compared {
  MemoryKind kind = MemoryKind::kShown;
  Outcome outcome;
  std::string group;       // for --by
  estimate::LeftOut left;  // for --leave-out
  std::string measured;    // for --rows: the cells before the prediction
  std::string phase;       // and the cell after it: when the peak is reached, or an error
};

// Names the run's group after the values of the fields in `by`; empty if `by` is empty. Error
// messages mention `option`.
Result<std::string> GroupOf(const TrainingRun& run, const std::string& by, const char* option) {
  std::vector<std::string> values;
  if (by.empty()) return "";
  for (const std::string_view field : base::Split(by, ',')) {
    Result<std::string> value = estimate::FieldOf(run, base::Trim(field));
    if (!value) return base::Wrap(value.error(), option);
    values.push_back(*std::move(value));
  }
  return base::Join(values, ",");
}

// Corrects each run's prediction with the runs of the other groups. Allocated memory is corrected
// separately, because only the other kinds of memory include allocator fragmentation.
void LeaveOut(std::vector<Compared>& compared, double coverage) {
  for (const bool allocated : {true, false}) {
    std::vector<Outcome> outcomes;
    std::vector<estimate::LeftOut> parts;
    std::vector<Compared*> runs;
    for (Compared& each : compared) {
      if ((each.kind == MemoryKind::kAllocated) != allocated) continue;
      outcomes.push_back(each.outcome);
      parts.push_back(each.left);
      runs.push_back(&each);
    }
    std::vector<Outcome> left = estimate::LeaveOut(outcomes, parts, coverage);
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i]->outcome = std::move(left[i]);
  }
}

std::string TableOf(const std::vector<Evaluated>& all, double coverage) {
  Table table(TextsAndNumbers({"MEMORY", "RUNS"}, {"N", "MEAN ERR", "MEDIAN", "P90", "UNDER",
                                                   ">10%", "COVERED", "BOUND OVER", "NONE"}));
  for (const Evaluated& each : all) {
    const estimate::Score& score = each.score;
    table.Add(ScoreRow(each.memory, each,
                       {score.mean_error, score.median_error, score.p90_error, score.under,
                        score.under_10, score.covered, score.bound_over}));
  }
  return table.Text(ScreenOf(stdout)) +
         fmt::format(
             "\nShares in %. MEMORY: the kind of memory that the source measured; if unstated, the "
             "comparison uses\nwhat nvidia-smi would show. UNDER, >10%: rows predicted more than 0 "
             "or 10 % below the measurement.\nCOVERED: rows within the {:g} % bound. BOUND OVER: "
             "mean excess of that bound. NONE: rows with too\nlittle information or a method that "
             "is not modelled.\n",
             100 * coverage);
}

std::string RowsOf(const std::vector<Compared>& compared) {
  std::string rows = "id,model,memory,measured_mib,point_mib,bound_mib,phase\n";
  for (const Compared& each : compared) {
    const std::optional<estimate::Answer>& answer = each.outcome.answer;
    rows += fmt::format("{},{},{}\n", each.measured,
                        answer ? fmt::format("{},{}", answer->point_mib, answer->bound_mib) : ",",
                        each.phase);
  }
  return rows;
}

std::string TroublesOf(const TrainingRuns& set) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < set.troubles.size() && i < kShown; ++i)
    text += "no prediction: " + base::Printable(set.troubles[i], 300) + "\n";
  if (set.troubles.size() > kShown)
    text += fmt::format("no prediction: {} more rows with similar problems\n",
                        set.troubles.size() - kShown);
  return text;
}

void EvaluateTransformers(Context& context, const EvaluateFlags& flags) {
  const Result<TrainingRuns> set = estimate::ReadTrainingRuns(flags.runs, flags.models);
  if (!set) return context.Fail(NamedWrongly(set.error()));
  std::vector<Compared> compared;
  for (const TrainingRun& run : set->runs) {
    const Result<TransformerEstimate> estimate = Ask(*set, run, flags.coverage);
    const Result<std::string> group = GroupOf(run, flags.by, "--by");
    const Result<std::string> left = GroupOf(run, flags.leave_out, "--leave-out");
    if (!group) return context.Fail(group.error());
    if (!left) return context.Fail(left.error());
    for (const estimate::MeasuredMemory& measured : run.measured) {
      Outcome outcome{.measured_mib = measured.mib};
      if (estimate) {
        const estimate::MemoryBound& bound = BoundOf(*estimate, measured.kind);
        outcome.answer = estimate::Answer{.point_mib = bound.point_mib,
                                          .bound_mib = bound.bound_mib,
                                          .coverage = flags.coverage,
                                          .method = "transformer"};
      }
      const bool varying = run.plan && run.plan->variable_length;
      compared.push_back(
          {measured.kind,
           std::move(outcome),
           *group,
           {*left, varying ? "varying" : "fixed"},
           fmt::format("{},{},{},{}", base::CsvCell(run.id), base::CsvCell(run.model),
                       base::WordOf(measured.kind), measured.mib),
           estimate ? std::string(base::WordOf(estimate->phase))
                    : base::CsvCell(base::Printable(estimate.error().message, 300))});
    }
  }
  if (!flags.leave_out.empty()) LeaveOut(compared, flags.coverage);
  if (flags.rows) return Print(context, RowsOf(compared));
  Groups<MemoryKind> groups;
  for (const Compared& each : compared) {
    groups[{each.kind, ""}].push_back(each.outcome);
    if (!flags.by.empty()) groups[{each.kind, each.group}].push_back(each.outcome);
  }
  std::vector<Evaluated> all;
  for (const auto& [group, outcomes] : groups) {
    all.push_back({.estimator = "transformer",
                   .family = group.second,
                   .score = estimate::ScoreOf(outcomes, 0),
                   .memory = std::string(base::WordOf(group.first))});
  }
  if (context.json) {
    base::Json json = EvaluationJson(all, set->runs.size(), set->without_model, flags.coverage);
    json["troubles"] = set->troubles;
    return Print(context, base::DumpJson(json) + "\n");
  }
  Print(context, fmt::format("{}; {} more without a model\n\n",
                             base::Counted(std::ssize(set->runs), "run"), set->without_model) +
                     TableOf(all, flags.coverage) + TroublesOf(*set));
}

// ---- sweeps over batch sizes ----

constexpr double kCoverage = 0.95;  // coverage of the bound (estimate/amounts.h)

std::vector<Evaluated> EvaluatedSweeps(const std::vector<SweepAnswer>& answers, bool by_benchmark) {
  Groups<SweepQuestion> groups;
  for (const SweepAnswer& each : answers) {
    Outcome outcome{.measured_mib = each.measured};
    if (each.point > 0)
      outcome.answer = estimate::Answer{.point_mib = each.point, .bound_mib = each.bound};
    groups[{each.question, ""}].push_back(outcome);
    if (by_benchmark) groups[{each.question, each.benchmark}].push_back(outcome);
  }
  std::vector<Evaluated> all;
  for (const auto& [group, outcomes] : groups) {
    all.push_back({.estimator = "amounts",
                   .family = group.second,
                   .score = estimate::ScoreOf(outcomes, 0),
                   .memory = "shown",
                   .asked = std::string(base::WordOf(group.first))});
  }
  return all;
}

std::string SweepTable(const std::vector<Evaluated>& all) {
  Table table(TextsAndNumbers({"ASKED", "BENCHMARK"},
                              {"N", "MEAN ERR", "MEDIAN", "P90", "COVERED", "BOUND OVER", "NONE"}));
  for (const Evaluated& each : all) {
    const estimate::Score& score = each.score;
    const bool bounded = each.asked != base::WordOf(SweepQuestion::kSlope);
    const auto of_bound = [&](double share) {
      return bounded ? std::optional(share) : std::nullopt;
    };
    table.Add(ScoreRow(each.asked, each,
                       {score.mean_error, score.median_error, score.p90_error,
                        of_bound(score.covered), of_bound(score.bound_over)}));
  }
  return table.Text(ScreenOf(stdout)) +
         "\nShares in %. Memory is what the driver reports. ASKED: what is predicted, and from "
         "which runs:\n"
         "  batch left out        memory at one batch size, from all other batch sizes\n"
         "  from two smaller      memory at one batch size, from two at most half as large\n"
         "  GPU left out          memory at one batch size, from runs on another GPU type\n"
         "  sample, GPU left out  memory per sample, from runs on another GPU type\n"
         "COVERED: runs within the 95 % bound. BOUND OVER: mean excess of that bound. NONE: runs "
         "too far\nfrom the measured ones to be predicted.\n";
}

void EvaluateSweeps(Context& context, const EvaluateFlags& flags) {
  const bool grouped = !flags.by.empty() && flags.by != "benchmark";
  if (grouped || !flags.leave_out.empty() || flags.coverage != kCoverage)
    return context.Fail(
        Invalid("batch sweeps take only --by benchmark, --rows and a coverage of 0.95").error());
  std::vector<SweepPoint> points;
  for (const std::string& file : flags.runs) {
    Result<std::vector<SweepPoint>> read = estimate::ReadSweeps(file);
    if (!read) return context.Fail(NamedWrongly(read.error()));
    std::ranges::move(*read, std::back_inserter(points));
  }
  const std::vector<SweepAnswer> answers = estimate::AskSweeps(points);
  if (flags.rows) {
    std::string rows = "asked,benchmark,measured,point,bound\n";
    for (const SweepAnswer& each : answers) {
      rows += fmt::format("{},{},{},{},{}\n", base::WordOf(each.question),
                          base::CsvCell(each.benchmark), each.measured, each.point, each.bound);
    }
    return Print(context, rows);
  }
  const std::vector<Evaluated> all = EvaluatedSweeps(answers, flags.by == "benchmark");
  Print(context, context.json
                     ? base::DumpJson(EvaluationJson(all, points.size(), 0, kCoverage)) + "\n"
                     : base::Counted(std::ssize(points), "point") + "\n\n" + SweepTable(all));
}

// Returns true if all of the files are batch sweeps, which need no model table. Returns the errors
// of IsSweep.
Result<bool> AreSweeps(const std::vector<std::string>& files) {
  bool sweeps = !files.empty();
  for (const std::string& file : files) {
    const bool one = CARMA_TRY(estimate::IsSweep(file));
    sweeps = sweeps && one;
  }
  return sweeps;
}

}  // namespace

void EvaluateRuns(Context& context, const EvaluateFlags& flags) {
  const Result<bool> sweeps = AreSweeps(flags.runs);
  if (!sweeps) return context.Fail(NamedWrongly(sweeps.error()));
  if (*sweeps) return EvaluateSweeps(context, flags);
  if (flags.runs.empty() || flags.models.empty())
    return context.Fail({ErrorCode::kInvalid, "expected --runs and --models together"});
  EvaluateTransformers(context, flags);
}

}  // namespace carma::cli
