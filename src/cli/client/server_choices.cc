#include "cli/client/server_choices.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/client/task_table.h"
#include "config/settings.h"
#include "core/policy/policy.h"
#include "core/values/task_state.h"
#include "estimate/estimator.h"
#include "estimate/training_plan.h"

namespace carma::cli {
namespace {

using Words = std::vector<std::string>;

Words States() {
  Words names{"all"};
  for (int i = 0; i < core::kTaskStateCount; ++i)
    names.emplace_back(core::TaskStateName(static_cast<core::TaskState>(i)));
  return names;
}

// Values of --rad-estimate and --estimate, which choose a memory estimate from a .rad file or a
// catalogue.
constexpr std::string_view kMemoryColumns = "oracle,horus,faketensor,gpumemnet,none";

// The first word of each enum value.
template <base::HasWords Enum>
Words FirstWordsOf() {
  Words words;
  std::vector<Enum> seen;
  for (const auto& [value, word] : base::kWordsOf<Enum>) {
    if (std::ranges::find(seen, value) != seen.end()) continue;
    seen.push_back(value);
    words.emplace_back(word);
  }
  return words;
}

constexpr ChoiceRow kRows[] = {
    {"list", "--state", true, &States},
    {"list", "--format", true, &ColumnKeys},
    {"estimate", "--estimator", true, [] { return NamesOf(estimate::Estimators()); }},
    {"", "--method", false, nullptr, "full,lora,qlora"},
    {"", "--lora-targets", true, nullptr, "q,k,v,o,gate,up,down,attention,mlp,all"},
    {"", "--gradient-checkpointing", false, &FirstWordsOf<estimate::Checkpointing>},
    {"", "--attention", false, &FirstWordsOf<estimate::Attention>},
    {"", "--loss", false, &FirstWordsOf<estimate::Loss>},
    {"", "--dp", false, &FirstWordsOf<estimate::DataParallel>},
    {"", "--offload", true, nullptr, "optimizer,params"},
    {"", "--rad-estimate", false, nullptr, kMemoryColumns},
    {"", "--estimate", false, nullptr, kMemoryColumns},
    {"", "--optimizer", false, nullptr, "sgd,sgd-momentum,adam,adamw"},
    {"", "--precision", false, nullptr, "fp32,amp,bf16"},
    {"config show", "", false, [] { return NamesOf(config::Keys()); }},
    {"completion", "", false, nullptr, "bash,zsh,fish"},
};

}  // namespace

Choices FindChoices(std::span<const ChoiceRow> rows, std::string_view verb,
                    std::string_view option) {
  for (const ChoiceRow& row : rows) {
    if (row.option != option || (!row.verb.empty() && row.verb != verb)) continue;
    if (row.words) return {row.words(), row.list};
    const auto fixed = base::Split(row.fixed, ',');
    return {{fixed.begin(), fixed.end()}, row.list};
  }
  return {};
}

Choices ServerChoices(std::string_view verb, std::string_view option) {
  return FindChoices(kRows, verb, option);
}

TaskNames TasksWorthNaming(std::string_view verb) {
  constexpr std::array<std::string_view, 5> kOfThePast{"show", "logs", "history", "redo",
                                                       "explain"};
  const bool past = std::ranges::find(kOfThePast, verb) != kOfThePast.end();
  return past ? TaskNames::kAll : TaskNames::kOpen;
}

}  // namespace carma::cli
