#include "cli/choices.h"

#include <algorithm>
#include <array>

#include "cli/task_table.h"
#include "config/settings.h"
#include "core/policy.h"
#include "core/task.h"
#include "estimate/estimator.h"
#include "estimate/training_plan.h"
#include "sim/model_words.h"
#include "trace/job_reader.h"

namespace carma::cli {
namespace {

using Words = std::vector<std::string>;

template <class Entries>
Words NamesOf(const Entries& entries) {
  Words names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

Words States() {
  Words names{"all"};
  for (int i = 0; i < core::kTaskStateCount; ++i)
    names.emplace_back(core::TaskStateName(static_cast<core::TaskState>(i)));
  return names;
}

Words ConfigKeys() {
  return NamesOf(config::Keys());
}

// A mapper, and what the sections of the configuration that a simulated policy takes let one set.
Words PolicyWords() {
  Words words = NamesOf(core::Mappers());
  for (const std::string& key : ConfigKeys()) {
    for (const std::string_view section : {"policy.", "recovery.", "monitor."}) {
      if (key.starts_with(section)) words.push_back(key.substr(section.size()) + "=");
    }
  }
  return words;
}

Words SimulatedWorld() {
  Words words;
  for (const std::string& name : NamesOf(sim::ModelWords())) words.push_back(name + "=");
  return words;
}

Words Estimators() {
  return NamesOf(estimate::Estimators());
}

// Columns of descriptions and catalogues.
Words MemoryColumns() {
  return {"oracle", "horus", "faketensor", "gpumemnet", "none"};
}

Words SimulatedEstimators() {
  Words words = MemoryColumns();
  for (const std::string& name : Estimators()) words.push_back(name);
  return words;
}

// Each meaning once: its first word.
template <base::HasWords Enum>
Words FirstWordsOf() {
  Words words;
  std::vector<Enum> seen;
  for (const auto& [value, word] : base::kWordsOf<Enum>) {
    if (std::find(seen.begin(), seen.end(), value) != seen.end()) continue;
    seen.push_back(value);
    words.emplace_back(word);
  }
  return words;
}

struct Row {
  std::string_view verb;  // empty: any
  std::string_view option;
  bool list;
  Words (*words)();
};

constexpr std::array kRows{
    Row{"list", "--state", true, &States},
    Row{"list", "--format", true, &ColumnKeys},
    Row{"estimate", "--estimator", true, &Estimators},
    Row{"estimate evaluate", "--estimator", true, &Estimators},
    Row{"estimate evaluate", "--by", true,
        [] {
          return Words{"source", "family", "model", "method", "quantisation", "parallel", "gpus"};
        }},
    Row{"", "--method", false,
        [] {
          return Words{"full", "lora", "qlora"};
        }},
    Row{"", "--lora-targets", true,
        [] { return Words{"q", "k", "v", "o", "gate", "up", "down", "attention", "mlp", "all"}; }},
    Row{"", "--gradient-checkpointing", false, &FirstWordsOf<estimate::Checkpointing>},
    Row{"", "--attention", false, &FirstWordsOf<estimate::Attention>},
    Row{"", "--loss", false, &FirstWordsOf<estimate::Loss>},
    Row{"", "--dp", false, &FirstWordsOf<estimate::DataParallel>},
    Row{"", "--offload", true,
        [] {
          return Words{"optimizer", "params"};
        }},
    Row{"simulate", "--estimator", false, &SimulatedEstimators},
    Row{"simulate", "--policy", true, &PolicyWords},
    Row{"simulate", "--model", true, &SimulatedWorld},
    Row{"simulate", "--history", false,
        [] {
          return Words{"none", "run", "runs"};
        }},
    Row{"simulate", "--collocation", false,
        [] {
          return Words{"mps", "streams", "mig", "exclusive"};
        }},
    Row{"profile", "--methods", true,
        [] {
          return Words{"streams", "mps", "mig"};
        }},
    Row{"simulate", "--published", false,
        [] {
          return Words{"thesis", "v2"};
        }},
    Row{"", "--rad-estimate", false, &MemoryColumns},
    Row{"", "--estimate", false, &MemoryColumns},
    Row{"", "--optimizer", false,
        [] {
          return Words{"sgd", "sgd-momentum", "adam", "adamw"};
        }},
    Row{"", "--precision", false,
        [] {
          return Words{"fp32", "amp", "bf16"};
        }},
    Row{"trace export", "--as", false,
        [] {
          return Words{"jobs", "tasks", "script"};
        }},
    Row{"config show", "", false, &ConfigKeys},
    Row{"completion", "", false,
        [] {
          return Words{"bash", "zsh", "fish"};
        }},
};

}  // namespace

Choices ChoicesOf(std::string_view verb, std::string_view option) {
  if (verb.starts_with("trace ") && option == "--format")
    return {NamesOf(trace::TraceFormats()), false};
  for (const Row& row : kRows) {
    if (row.option == option && (row.verb.empty() || row.verb == verb))
      return {row.words(), row.list};
  }
  return {};
}

TaskNames TasksWorthNaming(std::string_view verb) {
  constexpr std::array<std::string_view, 5> kOfThePast{"show", "logs", "history", "redo",
                                                       "explain"};
  const bool past = std::find(kOfThePast.begin(), kOfThePast.end(), verb) != kOfThePast.end();
  return past ? TaskNames::kAll : TaskNames::kOpen;
}

}  // namespace carma::cli
