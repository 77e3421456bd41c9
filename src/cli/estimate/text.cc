#include "cli/estimate/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "cli/estimate/activity.h"
#include "cli/table.h"
#include "estimate/asking.h"

namespace carma::cli {
namespace {

using base::Json;
using estimate::Answer;
using estimate::Question;

constexpr std::size_t kShown = 400;

std::string_view FormatName(model::SummaryFormat format) {
  switch (format) {
    case model::SummaryFormat::kTorchSummary:
      return "torchsummary";
    case model::SummaryFormat::kTorchInfo:
      return "torchinfo";
    case model::SummaryFormat::kTorchTree:
      return "printed module tree";
    case model::SummaryFormat::kKeras:
      return "Keras summary";
    case model::SummaryFormat::kCarmaJson:
      return "CARMA layer list";
  }
  return "";
}

std::string_view OptimizerName(estimate::Optimizer optimizer) {
  switch (optimizer) {
    case estimate::Optimizer::kSgd:
      return "sgd";
    case estimate::Optimizer::kMomentum:
      return "sgd-momentum";
    case estimate::Optimizer::kAdam:
      return "adam";
  }
  return "";
}

std::string_view PrecisionName(estimate::Precision precision) {
  switch (precision) {
    case estimate::Precision::kFp32:
      return "fp32";
    case estimate::Precision::kMixed:
      return "amp";
    case estimate::Precision::kHalf:
      return "bf16";
  }
  return "";
}

// "25.6 M parameters", or the exact number for small models.
std::string ParamsText(double params) {
  return params < 1e5 ? fmt::format("{:.0f} parameters", params)
                      : fmt::format("{:.1f} M parameters", params / 1e6);
}

std::string ModelLine(const EstimateSheet& sheet) {
  const model::LayerList* layers = sheet.layers;
  if (const estimate::TransformerConfig* config = sheet.question->transformer) {
    return fmt::format("transformer ({}), {}, {}", config->family,
                       base::Counted(config->layers, "layer"),
                       ParamsText(config->TotalParameters()));
  }
  if (layers == nullptr) return "no model summary";
  return fmt::format("{}{}, {}, {}",
                     layers->model.empty() ? "" : base::Printable(layers->model, 80) + ": ",
                     FormatName(layers->format), base::Counted(std::ssize(layers->layers), "row"),
                     ParamsText(static_cast<double>(layers->params)));
}

// Shows how the user's word was understood: "adam", or "AdamW (as adam)".
std::string Stated(const std::optional<std::string>& word, std::string_view meaning) {
  if (!word || base::ToLower(*word) == meaning) return std::string(meaning);
  return fmt::format("{} (as {})", base::Printable(*word, 40), meaning);
}

// Summarises what to estimate: "batch 32, adam, fp32, 1 GPU, A100".
std::string AskedLine(const EstimateSheet& sheet) {
  const Question& question = *sheet.question;
  std::vector<std::string> parts;
  if (question.plan) {
    parts.push_back(fmt::format("{} x {} tokens per GPU and step", question.plan->batch,
                                question.plan->sequence));
    const estimate::TrainingPlan& plan = *question.plan;
    const std::int64_t gpus =
        plan.ranks * plan.tensor_parallel * plan.pipeline * plan.context_parallel;
    parts.push_back(base::Counted(gpus, "GPU"));
    return base::Join(parts, ", ");
  }
  parts.push_back(question.batch ? fmt::format("batch {}", *question.batch) : "batch not given");
  parts.push_back(question.optimizer ? Stated(sheet.optimizer, OptimizerName(*question.optimizer))
                                     : "optimizer not given");
  parts.push_back(question.precision ? Stated(sheet.precision, PrecisionName(*question.precision))
                                     : "precision not given");
  parts.push_back(base::Counted(question.gpus, "GPU"));
  if (!question.gpu_type.empty()) parts.push_back(base::Printable(question.gpu_type, 80));
  return base::Join(parts, ", ");
}

// Lists the known training settings with their sources, one line each; empty if no setting is
// known.
std::string TrainingTable(const EstimateSheet& sheet, const Screen& screen) {
  if (sheet.training.empty()) return "";
  Table table({{"TRAINING"}, {"VALUE"}, {"FROM", false, 20}});
  for (const task::TrainingWord& word : sheet.training) {
    table.Add({{word.name},
               {base::Printable(word.value, 80)},
               {word.from.empty() ? "an option" : base::Printable(word.from, kShown)}});
  }
  return "\n" + table.Text(screen);
}

std::string CoverageText(const Answer& answer) {
  return answer.coverage > 0 ? fmt::format("{:.4g} %", answer.coverage * 100) : "-";
}

// The first warning, or the reason why there is no estimate. Only --explain shows all warnings.
std::string NoteText(const Opinion& opinion) {
  if (!opinion.answer) return base::Printable(opinion.answer.error().message, kShown);
  const std::vector<std::string>& warnings = opinion.answer->warnings;
  if (warnings.empty()) return "";
  const std::string more = warnings.size() > 1 ? fmt::format(" (+{})", warnings.size() - 1) : "";
  return base::Printable(warnings.front(), kShown) + more;
}

// True if this row repeats another one: "auto" adopts the estimate of one estimator, which may have
// its own row.
bool IsShownAs(const EstimateSheet& sheet, const Opinion& opinion, const std::string& method) {
  return opinion.estimator != method &&
         std::ranges::any_of(sheet.opinions, [&](const Opinion& each) {
           return each.estimator == method && each.answer;
         });
}

// explain: true if the warnings are printed below the table instead of in it.
std::string OpinionTable(const EstimateSheet& sheet, bool explain, const Screen& screen) {
  Table table({{"ESTIMATOR"},
               {"POINT", true},
               {"BOUND", true},
               {"COVERS", true},
               {"METHOD"},
               {"NOTES", false, 20}});
  for (const Opinion& opinion : sheet.opinions) {
    const Answer* answer = opinion.answer ? &*opinion.answer : nullptr;
    const bool elsewhere = answer && (explain || IsShownAs(sheet, opinion, answer->method));
    table.Add({{opinion.estimator},
               {answer ? base::FormatMib(answer->point_mib) : "-"},
               {answer ? base::FormatMib(answer->bound_mib) : "-"},
               {answer ? CoverageText(*answer) : "-"},
               {answer ? base::Printable(answer->method, 40) : "-"},
               {elsewhere ? "" : NoteText(opinion), answer ? Colour::kNone : Colour::kFaint}});
  }
  return table.Text(screen);
}

// The memory that the daemon would promise to this task; empty if no daemon answers.
std::string PromiseLine(const EstimateSheet& sheet) {
  if (!sheet.knowledge) return "";
  const api::KnowledgeView& known = *sheet.knowledge;
  const auto answer_of = [&](std::string_view estimator) -> const Answer* {
    const auto found = std::ranges::find(sheet.opinions, estimator, &Opinion::estimator);
    return found != sheet.opinions.end() && found->answer ? &*found->answer : nullptr;
  };
  const Answer* given = answer_of("given");
  const Answer* predicted = answer_of(known.method);
  if (given != nullptr && (known.prefer_given || predicted == nullptr)) {
    return fmt::format("\ncarmad would promise {}, as the task requests\n",
                       base::FormatMib(given->point_mib));
  }
  if (predicted == nullptr) return "";
  return fmt::format(
      "\ncarmad would promise at most {} (estimate.method = {}, estimate.coverage = {})\n",
      base::FormatMib(estimate::PromiseOf(*predicted, known.coverage, known.gpu_mib)),
      base::Printable(known.method, 40), known.coverage);
}

std::string CalibrationLine(const EstimateSheet& sheet) {
  const estimate::Site& site = sheet.site;
  if (!sheet.knowledge) return "as shipped: no daemon responded";
  if (!sheet.knowledge->learns) return "as shipped: the daemon does not learn (estimate.history)";
  const std::string reason = base::Printable(site.reason, kShown);
  if (site.taught_by.empty()) return reason.empty() ? "as shipped" : reason;
  return fmt::format(
      "{}; constant {:+.0f} MiB; for {} on {}, a factor of {:.3f} covers {:.4g} % of them{}",
      reason, site.context_shift_mib, base::Counted(site.tasks, "task"),
      base::Printable(site.taught_by, 80), site.Factor(sheet.question->coverage, 1),
      sheet.question->coverage * 100,
      site.tasks < estimate::kFullCalibration
          ? fmt::format(" (mixed with the shipped values until {} tasks have finished)",
                        estimate::kFullCalibration)
          : "");
}

std::string Details(const EstimateSheet& sheet) {
  std::string out;
  for (const Opinion& opinion : sheet.opinions) {
    if (!opinion.answer) continue;
    const Answer& answer = *opinion.answer;
    if (answer.terms.empty() && answer.warnings.empty()) continue;
    if (IsShownAs(sheet, opinion, answer.method)) continue;
    out += fmt::format("\n{}:\n", opinion.estimator);
    for (const estimate::Term& term : answer.terms) {
      out += fmt::format("  {:>9}  {}\n", base::FormatMib(std::lround(term.mib)),
                         base::Printable(term.name, 100));
    }
    for (const std::string& warning : answer.warnings)
      out += "  note: " + base::Printable(warning, kShown) + "\n";
  }
  if (sheet.layers != nullptr && !sheet.layers->notes.empty()) {
    out += "\nmodel summary:\n";
    for (const model::Note& note : sheet.layers->notes)
      out += "  note: " + base::Printable(note.text, kShown) + "\n";
  }
  return out + "\ncalibration: " + CalibrationLine(sheet) + "\n";
}

template <class Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json ToJson(const Opinion& opinion) {
  Json json = {{"estimator", opinion.estimator}};
  if (!opinion.answer) {
    json["error"] = opinion.answer.error().message;
    return json;
  }
  const Answer& answer = *opinion.answer;
  Json terms = Json::array();
  for (const estimate::Term& term : answer.terms)
    terms.push_back({{"name", term.name}, {"mib", term.mib}});
  json["method"] = answer.method;
  json["point_mib"] = answer.point_mib;
  json["bound_mib"] = answer.bound_mib;
  json["coverage"] = answer.coverage > 0 ? Json(answer.coverage) : Json(nullptr);
  json["terms"] = std::move(terms);
  json["warnings"] = answer.warnings;
  return json;
}

Json ModelJson(const model::LayerList* layers) {
  if (layers == nullptr) return nullptr;
  Json notes = Json::array();
  for (const model::Note& note : layers->notes) notes.push_back(note.text);
  return {{"name", layers->model},
          {"format", FormatName(layers->format)},
          {"layers", layers->layers.size()},
          {"params", layers->params},
          {"notes", std::move(notes)}};
}

}  // namespace

std::string EstimateText(const EstimateSheet& sheet, bool explain, const Screen& screen) {
  std::string out =
      base::Printable(sheet.file, 4096) + ": " + ModelLine(sheet) + "\n" + AskedLine(sheet) + "\n";
  for (const std::string& remark : sheet.remarks) out += base::Printable(remark, kShown) + "\n";
  out += TrainingTable(sheet, screen);
  out += "\n" + OpinionTable(sheet, explain, screen) + PromiseLine(sheet);
  if (sheet.knowledge || sheet.work.guess) {
    out += ActivityText(sheet.knowledge.value_or(api::KnowledgeView{}), sheet.work, sheet.beside);
  } else if (!sheet.beside.empty()) {
    out += "--beside is ignored, because the task's SM activity is unknown\n";
  }
  return explain ? out + Details(sheet) : out;
}

std::string EstimateJson(const EstimateSheet& sheet) {
  const Question& question = *sheet.question;
  Json opinions = Json::array();
  for (const Opinion& opinion : sheet.opinions) opinions.push_back(ToJson(opinion));
  Json training = Json::array();
  for (const task::TrainingWord& word : sheet.training)
    training.push_back({{"name", word.name}, {"value", word.value}, {"from", word.from}});
  const Json json = {
      {"file", sheet.file},
      {"model", ModelJson(sheet.layers)},
      {"batch", OrNull(question.batch)},
      {"optimizer", question.optimizer ? Json(OptimizerName(*question.optimizer)) : Json(nullptr)},
      {"precision", question.precision ? Json(PrecisionName(*question.precision)) : Json(nullptr)},
      {"gpus", question.gpus},
      {"gpu_type", question.gpu_type},
      {"coverage", question.coverage},
      {"signature", question.signature},
      {"training", std::move(training)},
      {"remarks", sheet.remarks},
      {"calibration",
       {{"daemon", sheet.knowledge.has_value()},
        {"taught_by", sheet.site.taught_by},
        {"tasks", sheet.site.tasks},
        {"context_shift_mib", sheet.site.context_shift_mib},
        {"reason", sheet.site.reason},
        {"factor", sheet.site.Factor(question.coverage, 1)}}},
      {"activity",
       sheet.knowledge || sheet.work.guess
           ? ActivityJson(sheet.knowledge.value_or(api::KnowledgeView{}), sheet.work, sheet.beside)
           : Json(nullptr)},
      {"estimates", std::move(opinions)}};
  return base::DumpJson(json) + "\n";
}

}  // namespace carma::cli
