#include "cli/client/server_choices.h"

#include <algorithm>
#include <array>

#include "cli/client/task_table.h"
#include "config/settings.h"
#include "core/policy/policy.h"
#include "core/values/task_state.h"
#include "estimate/estimator.h"
#include "estimate/training_plan.h"

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

Words Estimators() {
  return NamesOf(estimate::Estimators());
}

// Memory columns of descriptions and catalogues.
Words MemoryColumns() {
  return {"oracle", "horus", "faketensor", "gpumemnet", "none"};
}

// Each value once, with its first word.
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

constexpr std::array kRows{
    ChoiceRow{"list", "--state", true, &States},
    ChoiceRow{"list", "--format", true, &ColumnKeys},
    ChoiceRow{"estimate", "--estimator", true, &Estimators},
    ChoiceRow{"", "--method", false,
              [] {
                return Words{"full", "lora", "qlora"};
              }},
    ChoiceRow{
        "", "--lora-targets", true,
        [] { return Words{"q", "k", "v", "o", "gate", "up", "down", "attention", "mlp", "all"}; }},
    ChoiceRow{"", "--gradient-checkpointing", false, &FirstWordsOf<estimate::Checkpointing>},
    ChoiceRow{"", "--attention", false, &FirstWordsOf<estimate::Attention>},
    ChoiceRow{"", "--loss", false, &FirstWordsOf<estimate::Loss>},
    ChoiceRow{"", "--dp", false, &FirstWordsOf<estimate::DataParallel>},
    ChoiceRow{"", "--offload", true,
              [] {
                return Words{"optimizer", "params"};
              }},
    ChoiceRow{"", "--rad-estimate", false, &MemoryColumns},
    ChoiceRow{"", "--estimate", false, &MemoryColumns},
    ChoiceRow{"", "--optimizer", false,
              [] {
                return Words{"sgd", "sgd-momentum", "adam", "adamw"};
              }},
    ChoiceRow{"", "--precision", false,
              [] {
                return Words{"fp32", "amp", "bf16"};
              }},
    ChoiceRow{"config show", "", false, &ConfigKeys},
    ChoiceRow{"completion", "", false,
              [] {
                return Words{"bash", "zsh", "fish"};
              }},
};

}  // namespace

Choices FindChoices(std::span<const ChoiceRow> rows, std::string_view verb,
                    std::string_view option) {
  for (const ChoiceRow& row : rows) {
    if (row.option == option && (row.verb.empty() || row.verb == verb))
      return {row.words(), row.list};
  }
  return {};
}

Choices ServerChoices(std::string_view verb, std::string_view option) {
  return FindChoices(kRows, verb, option);
}

TaskNames TasksWorthNaming(std::string_view verb) {
  constexpr std::array<std::string_view, 5> kOfThePast{"show", "logs", "history", "redo",
                                                       "explain"};
  const bool past = std::find(kOfThePast.begin(), kOfThePast.end(), verb) != kOfThePast.end();
  return past ? TaskNames::kAll : TaskNames::kOpen;
}

}  // namespace carma::cli
