// estimate evaluate --runs with sweeps over batch sizes.
#include <fmt/format.h>

#include <iterator>
#include <map>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "cli/client/verbs.h"
#include "cli/table.h"
#include "estimate/evaluate.h"
#include "estimate/sweeps.h"
#include "lab/verbs/evaluate/parts.h"

namespace carma::cli {
namespace {

using estimate::Outcome;
using estimate::Score;
using estimate::SweepAnswer;
using estimate::SweepPoint;
using estimate::SweepQuestion;

// An empty benchmark stands for all benchmarks.
using Group = std::pair<SweepQuestion, std::string>;
using Scores = std::map<Group, Score>;

constexpr double kCoverage = 0.95;  // coverage of the bound (estimate/amounts.h)

Scores ScoresOf(const std::vector<SweepAnswer>& answers, bool by_benchmark) {
  std::map<Group, std::vector<Outcome>> outcomes;
  for (const SweepAnswer& each : answers) {
    Outcome outcome{.measured_mib = each.measured};
    if (each.point > 0)
      outcome.answer = estimate::Answer{.point_mib = each.point, .bound_mib = each.bound};
    outcomes[{each.question, ""}].push_back(outcome);
    if (by_benchmark) outcomes[{each.question, each.benchmark}].push_back(outcome);
  }
  Scores scores;
  for (const auto& [group, of_group] : outcomes) scores[group] = estimate::ScoreOf(of_group, 0);
  return scores;
}

std::string TableOf(const Scores& scores) {
  Table table(TextsAndNumbers({"ASKED", "BENCHMARK"},
                              {"N", "MEAN ERR", "MEDIAN", "P90", "COVERED", "BOUND OVER", "NONE"}));
  for (const auto& [group, score] : scores) {
    std::vector<Cell> row{{std::string(base::WordOf(group.first))},
                          {group.second.empty() ? "all" : group.second},
                          {std::to_string(score.runs)}};
    const bool bounded = group.first != SweepQuestion::kSlope;
    for (const double share : {score.mean_error, score.median_error, score.p90_error})
      row.push_back({score.runs == 0 ? "-" : fmt::format("{:.1f}", 100 * share)});
    for (const double share : {score.covered, score.bound_over})
      row.push_back({score.runs == 0 || !bounded ? "-" : fmt::format("{:.1f}", 100 * share)});
    row.push_back({std::to_string(score.unanswered)});
    table.Add(std::move(row));
  }
  return table.Text(ScreenOf(stdout)) +
         "\nShares in %. Memory is what the driver reports. ASKED: what is predicted, and "
         "from which runs:\n  batch left out        one batch size, from all other batch sizes\n"
         "  from two smaller      a batch at least twice as large, from two smaller ones\n"
         "  GPU left out          one batch size, from runs on another GPU type\n"
         "  sample, GPU left out  memory per sample, from another GPU type\n"
         "COVERED, BOUND OVER: the bound at 95 %. NONE: too far from the measured runs.\n";
}

}  // namespace

void EvaluateSweeps(Context& context, const EvaluateFlags& flags) {
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
      rows += fmt::format("{},{},{},{},{}\n", base::WordOf(each.question), each.benchmark,
                          each.measured, each.point, each.bound);
    }
    return Print(context, rows);
  }
  const Scores scores = ScoresOf(answers, flags.by == "benchmark");
  if (!context.json)
    return Print(context, base::Counted(std::ssize(points), "point") + "\n\n" + TableOf(scores));
  base::Json json{{"runs", points.size()},
                  {"without_model", 0},
                  {"coverage", kCoverage},
                  {"estimators", base::Json::array()}};
  for (const auto& [group, score] : scores) {
    base::Json one = ScoreJson(score);
    one["estimator"] = "amounts";
    one["memory"] = "shown";
    one["asked"] = base::WordOf(group.first);
    one["family"] = group.second;
    one["classes"] = base::Json::array();
    json["estimators"].push_back(std::move(one));
  }
  Print(context, base::DumpJson(json) + "\n");
}

}  // namespace carma::cli
