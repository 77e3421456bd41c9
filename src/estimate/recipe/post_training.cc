#include "estimate/recipe/post_training.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "estimate/recipe/stated_settings.h"

namespace carma::estimate {
namespace {

// The defaults of GRPOConfig, in tokens.
constexpr std::int64_t kUsualPrompt = 512;
constexpr std::int64_t kUsualAnswer = 256;

void AddGroups(const StatedSettings& said, const Setting& kind, TrainingWords& words) {
  const Setting* prompt = said.Value({"max_prompt_length"});
  const Setting* answer = said.Value({"max_completion_length"});
  const auto number = [](const Setting* setting, std::int64_t usual) {
    return setting == nullptr ? usual : base::ParseInt(setting->value).value_or(usual);
  };
  const Setting* from = answer != nullptr ? answer : prompt != nullptr ? prompt : &kind;
  AddWord("seq-len", std::to_string(number(prompt, kUsualPrompt) + number(answer, kUsualAnswer)),
          *from, words);
  const Setting* beta = said.Value({"beta"});
  if (beta != nullptr && base::ParseDouble(beta->value).value_or(0) > 0 &&
      said.Value({"lora_r", "use_peft"}) == nullptr)
    AddWord("reference", "on", *beta, words);
  // In server mode, the engine runs on other GPUs; a colocated engine shares this GPU.
  const Setting* engine = said.Yes({"use_vllm"});
  const Setting* mode = said.Value({"vllm_mode"});
  const Setting* share = said.Value({"vllm_gpu_memory_utilization"});
  const bool shares = engine != nullptr && mode != nullptr && mode->value == "colocate";
  if (!shares) return AddWord("rollout-share", "0", engine != nullptr ? *engine : kind, words);
  constexpr std::string_view kUsualShare = "0.3";
  AddWord("rollout-share", share != nullptr ? share->value : std::string(kUsualShare),
          share != nullptr ? *share : *mode, words);
}

void AddUnsloth(const StatedSettings& said, const Setting& unsloth, TrainingWords& words) {
  const bool eight = said.Yes({"load_in_8bit"}) != nullptr;
  const bool in_full = said.Yes({"full_finetuning"}) != nullptr;
  const bool plain = said.No({"load_in_4bit"}) || eight || in_full;
  AddWord("weights", eight ? "int8" : plain ? "bf16" : "nf4-dq", unsloth, words);
  AddWord("method", in_full ? "full" : "lora", unsloth, words);
  AddWord("unprepared", "on", unsloth, words);
  AddWord("loss", "fused", unsloth, words);
  AddWord("fused-layers", "on", unsloth, words);
  const Setting* again = said.Value({"use_gradient_checkpointing"});
  if (again == nullptr) {
    AddWord("gradient-checkpointing", "full", unsloth, words);
    AddWord("offload", "activations", unsloth, words);
  } else if (again->value == "unsloth") {
    AddWord("offload", "activations", *again, words);
  }
}

}  // namespace

std::string TrainerKindOf(std::string_view name) {
  std::string spaced = base::ToLower(name);
  for (const std::string_view ending : {"config", "trainer"}) {
    if (spaced.ends_with(ending)) spaced.resize(spaced.size() - ending.size());
  }
  std::ranges::replace_if(
      spaced, [](char c) { return c == '.' || c == '_' || c == '-'; }, ' ');
  for (const std::string_view word : base::SplitWords(spaced)) {
    if (base::IsWordIn(kTrainerKinds, word)) return std::string(word);
  }
  return "";
}

TrainingWords WordsOfPostTraining(const std::vector<Setting>& settings) {
  const StatedSettings said(settings);
  TrainingWords words;
  const Setting* kind = said.Value({kTrainerKind});
  if (kind != nullptr && kind->value == "grpo") AddGroups(said, *kind, words);
  if (const Setting* unsloth = said.Yes({kUnsloth})) AddUnsloth(said, *unsloth, words);
  return words;
}

}  // namespace carma::estimate
