// estimate evaluate --runs with tables of measured runs.
#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/client/verbs.h"
#include "cli/table.h"
#include "estimate/evaluate.h"
#include "estimate/transformer/peak.h"
#include "estimate/transformer/runs.h"
#include "lab/verbs/evaluate/parts.h"

namespace carma::cli {
namespace {

using estimate::MemoryKind;
using estimate::Outcome;
using estimate::Score;
using estimate::TrainingRun;
using estimate::TrainingRuns;
using estimate::TransformerEstimate;

// A memory definition and the name of a group of runs. An empty name stands for all runs.
using Group = std::pair<MemoryKind, std::string>;
using Scores = std::map<Group, Score>;

const estimate::MemoryBound& BoundOf(const TransformerEstimate& estimate, MemoryKind kind) {
  if (kind == MemoryKind::kAllocated) return estimate.needed;
  return kind == MemoryKind::kReserved ? estimate.reserved : estimate.shown;
}

Result<TransformerEstimate> Ask(const TrainingRuns& runs, const TrainingRun& run, double coverage) {
  if (!run.plan) return std::unexpected(run.plan.error());
  return estimate::EstimateTransformer(runs.configs[run.config], *run.plan, coverage);
}

// The runs with one definition of memory, and their groups.
struct Compared {
  std::vector<Outcome> outcomes;
  std::vector<std::string> groups;      // for --by
  std::vector<estimate::LeftOut> left;  // for --leave-out
};

// An empty list of fields gives an empty name. Error messages name `option`.
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

// Every figure except allocated memory includes allocator fragmentation. The held-out source's
// fragmentation is predicted from that of the other sources.
void LeaveOut(std::map<MemoryKind, Compared>& compared, double coverage) {
  const auto leave = [&](bool allocated) {
    std::vector<Outcome> outcomes;
    std::vector<estimate::LeftOut> parts;
    for (const auto& [kind, runs] : compared) {
      if ((kind == MemoryKind::kAllocated) != allocated) continue;
      outcomes.insert(outcomes.end(), runs.outcomes.begin(), runs.outcomes.end());
      parts.insert(parts.end(), runs.left.begin(), runs.left.end());
    }
    const std::vector<Outcome> left = estimate::LeaveOut(outcomes, parts, coverage);
    auto next = left.begin();
    for (auto& [kind, runs] : compared) {
      if ((kind == MemoryKind::kAllocated) != allocated) continue;
      const auto end = next + static_cast<std::ptrdiff_t>(runs.outcomes.size());
      runs.outcomes.assign(next, end);
      next = end;
    }
  };
  leave(true);
  leave(false);
}

std::string TableOf(const Scores& scores, double coverage) {
  Table table(TextsAndNumbers({"MEMORY", "RUNS"}, {"N", "MEAN ERR", "MEDIAN", "P90", "UNDER",
                                                   ">10%", "COVERED", "BOUND OVER", "NONE"}));
  for (const auto& [group, score] : scores) {
    std::vector<Cell> row{{std::string(base::WordOf(group.first))},
                          {group.second.empty() ? "all" : group.second},
                          {std::to_string(score.runs)}};
    for (const double share : {score.mean_error, score.median_error, score.p90_error, score.under,
                               score.under_10, score.covered, score.bound_over})
      row.push_back({score.runs == 0 ? "-" : fmt::format("{:.1f}", 100 * share)});
    row.push_back({std::to_string(score.unanswered)});
    table.Add(std::move(row));
  }
  return table.Text(ScreenOf(stdout)) +
         fmt::format(
             "\nShares in %. MEMORY: which memory the source measured; unstated is compared with "
             "what nvidia-smi\nwould show. UNDER, >10%: rows predicted below the measurement, at "
             "all or by more than 10 %.\nCOVERED, BOUND OVER: the bound at {:g} %. NONE: rows with "
             "too little information or a method\nthat is not modelled.\n",
             100 * coverage);
}

std::string RowOf(const TrainingRun& run, const estimate::MeasuredMemory& measured,
                  const TransformerEstimate& estimate) {
  const estimate::MemoryBound& bound = BoundOf(estimate, measured.kind);
  return fmt::format("{},{},{},{},{},{},{}\n", run.id, run.model, base::WordOf(measured.kind),
                     measured.mib, bound.point_mib, bound.bound_mib, base::WordOf(estimate.phase));
}

// Quotes the text as a CSV cell.
std::string Quoted(const std::string& text) {
  std::string cell;
  for (const char c : base::Printable(text, 300)) cell += c == '"' ? '\'' : c;
  return cell;
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

void EvaluateRuns(Context& context, const EvaluateFlags& flags) {
  const Result<TrainingRuns> set = estimate::ReadTrainingRuns(flags.runs, flags.models);
  if (!set) return context.Fail(NamedWrongly(set.error()));
  std::map<MemoryKind, Compared> compared;
  std::string rows = "id,model,memory,measured_mib,point_mib,bound_mib,phase\n";
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
        rows += RowOf(run, measured, *estimate);
      } else {
        rows +=
            fmt::format("{},{},{},{},,,\"{}\"\n", run.id, run.model, base::WordOf(measured.kind),
                        measured.mib, Quoted(estimate.error().message));
      }
      Compared& kind = compared[measured.kind];
      kind.outcomes.push_back(std::move(outcome));
      kind.groups.push_back(*group);
      kind.left.push_back({*left, run.plan && run.plan->variable_length ? "varying" : "fixed"});
    }
  }
  std::map<Group, std::vector<Outcome>> groups;
  if (!flags.leave_out.empty()) LeaveOut(compared, flags.coverage);
  for (const auto& [kind, runs] : compared) {
    for (std::size_t i = 0; i < runs.outcomes.size(); ++i) {
      groups[{kind, ""}].push_back(runs.outcomes[i]);
      if (!flags.by.empty()) groups[{kind, runs.groups[i]}].push_back(runs.outcomes[i]);
    }
  }
  if (flags.rows) return Print(context, rows);
  Scores scores;
  for (const auto& [group, outcomes] : groups) scores[group] = estimate::ScoreOf(outcomes, 0);
  if (context.json) {
    base::Json json{{"runs", set->runs.size()},
                    {"without_model", set->without_model},
                    {"coverage", flags.coverage},
                    {"troubles", set->troubles},
                    {"estimators", base::Json::array()}};
    for (const auto& [group, score] : scores) {
      base::Json one = ScoreJson(score);
      one["estimator"] = "transformer";
      one["memory"] = base::WordOf(group.first);
      one["family"] = group.second;
      one["classes"] = base::Json::array();
      json["estimators"].push_back(std::move(one));
    }
    return Print(context, base::DumpJson(json) + "\n");
  }
  Print(context, fmt::format("{}; {} more without a model\n\n",
                             base::Counted(std::ssize(set->runs), "run"), set->without_model) +
                     TableOf(scores, flags.coverage) + TroublesOf(*set));
}

}  // namespace carma::cli
