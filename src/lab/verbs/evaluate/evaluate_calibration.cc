// estimate evaluate --calibrate: tests how well the runs of some families calibrate a server's
// constants for the other families.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "cli/client/verbs.h"
#include "cli/table.h"
#include "estimate/asking.h"
#include "lab/verbs/evaluate/parts.h"

namespace carma::cli {
namespace {

using estimate::DataSet;
using estimate::Outcome;
using estimate::Run;
using estimate::Score;
using estimate::Site;

struct Halves {
  Score own, others;
};

Halves HalvesOf(const DataSet& set, const std::vector<Outcome>& outcomes,
                const std::string& family) {
  std::vector<Outcome> own, others;
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    (set.runs[i].family == family ? own : others).push_back(outcomes[i]);
  return {estimate::ScoreOf(own, 0), estimate::ScoreOf(others, 0)};
}

struct Taught {
  std::string family;
  Site site;
  Halves shipped, learned;
};

std::string TextOf(const std::vector<Taught>& all, double coverage) {
  std::vector<Column> columns = TextsAndNumbers(
      {"TEACHER"},
      {"SHIFT", "OWN ERR", "THEN", "OTHERS", "THEN", "COVERED", "THEN", "OVER", "THEN"});
  columns.push_back({"WHY", false, 20});
  Table table(std::move(columns));
  const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
  double worse = 0, least = 1;
  for (const Taught& each : all) {
    worse = std::max({worse, each.learned.own.mean_error - each.shipped.own.mean_error,
                      each.learned.others.mean_error - each.shipped.others.mean_error});
    least = std::min(least, each.learned.others.covered);
    table.Add({{base::Printable(each.family, 40)},
               {fmt::format("{:+.0f}", each.site.context_shift_mib)},
               {percent(each.shipped.own.mean_error)},
               {percent(each.learned.own.mean_error)},
               {percent(each.shipped.others.mean_error)},
               {percent(each.learned.others.mean_error)},
               {percent(each.shipped.others.covered)},
               {percent(each.learned.others.covered)},
               {percent(each.shipped.others.bound_over)},
               {percent(each.learned.others.bound_over)},
               {each.site.reason}});
  }
  return table.Text(ScreenOf(stdout)) + fmt::format(
                                            "\nOWN ERR, OTHERS: mean error in % on the runs "
                                            "learned from and on all other runs.\n"
                                            "COVERED, OVER: other runs within the {:g} % bound, "
                                            "and its mean excess. THEN: after learning.\n"
                                            "Mean errors rise by at most {:.2f}; at least {:.1f} % "
                                            "of the other runs are covered.\n",
                                            100 * coverage, 100 * worse, 100 * least);
}

estimate::Question QuestionOf(const DataSet& set, const Run& run, double coverage) {
  return {.layers = &set.models[run.model],
          .batch = run.batch,
          .optimizer = run.optimizer,
          .precision = run.precision.value_or(estimate::Precision::kFp32),
          .gpus = run.gpus,
          .coverage = coverage};
}

}  // namespace

std::vector<Outcome> AnswersOf(const estimate::Estimator& estimator, const DataSet& set,
                               double coverage, const Site* site) {
  std::vector<Outcome> outcomes;
  outcomes.reserve(set.runs.size());
  for (const Run& run : set.runs) {
    estimate::Question question = QuestionOf(set, run, coverage);
    question.site = site;
    Result<estimate::Answer> answer = estimator.Ask(question);
    outcomes.push_back({.measured_mib = run.measured_mib,
                        .censored = run.censored,
                        .answer = answer ? std::optional(*std::move(answer)) : std::nullopt});
  }
  return outcomes;
}

Result<Site> LearnFrom(const DataSet& set, const std::string& family) {
  const auto structural = estimate::MakeStructural();
  std::vector<task::Observation> observations;
  for (const Run& run : set.runs) {
    if (run.family != family || run.censored) continue;
    observations.push_back(
        {.signature = fmt::format("{}, batch {}", run.name, run.batch),
         .relation = run.name,
         .measured_mib = run.measured_mib,
         .formula = estimate::SplitFormula(*structural, QuestionOf(set, run, 0.9))});
  }
  if (observations.empty())
    return Invalid("--calibrate: no runs of the family '" + base::Printable(family, 40) + "'");
  return estimate::Calibrate(observations, "");
}

void EvaluateCalibration(Context& context, const DataSet& set, double coverage) {
  std::set<std::string> families;
  for (const Run& run : set.runs) {
    if (!run.censored) families.insert(run.family);
  }
  const auto structural = estimate::MakeStructural();
  const Site as_shipped;
  const std::vector<Outcome> shipped = AnswersOf(*structural, set, coverage, &as_shipped);
  std::vector<Taught> all;
  for (const std::string& family : families) {
    const Result<Site> site = LearnFrom(set, family);
    if (!site) return context.Fail(site.error());
    all.push_back({family, *site, HalvesOf(set, shipped, family),
                   HalvesOf(set, AnswersOf(*structural, set, coverage, &*site), family)});
  }
  if (!context.json) return Print(context, TextOf(all, coverage));
  base::Json json{{"coverage", coverage}, {"teachers", base::Json::array()}};
  for (const Taught& each : all) {
    json["teachers"].push_back({{"family", each.family},
                                {"context_shift_mib", each.site.context_shift_mib},
                                {"reason", each.site.reason},
                                {"own_shipped", ScoreJson(each.shipped.own)},
                                {"own_learned", ScoreJson(each.learned.own)},
                                {"others_shipped", ScoreJson(each.shipped.others)},
                                {"others_learned", ScoreJson(each.learned.others)}});
  }
  Print(context, base::DumpJson(json) + "\n");
}

}  // namespace carma::cli
