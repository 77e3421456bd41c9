#include "estimate/training_plan.h"

#include "base/text.h"

namespace carma::estimate {
namespace {

using Targets = bool LoraTargets::*;

struct TargetWord {
  std::string_view word;
  std::initializer_list<Targets> matrices;
};

// Names of the matrices in PEFT, in LitGPT and in the code of model families.
const TargetWord kTargetWords[] = {
    {"q", {&LoraTargets::query}},
    {"query", {&LoraTargets::query}},
    {"k", {&LoraTargets::key}},
    {"key", {&LoraTargets::key}},
    {"v", {&LoraTargets::value}},
    {"value", {&LoraTargets::value}},
    {"o", {&LoraTargets::output}},
    {"projection", {&LoraTargets::output}},
    {"gate", {&LoraTargets::gate}},
    {"w1", {&LoraTargets::gate}},
    {"up", {&LoraTargets::up}},
    {"w2", {&LoraTargets::up}},
    {"down", {&LoraTargets::down}},
    {"c_proj", {&LoraTargets::output, &LoraTargets::down}},
    {"wo", {&LoraTargets::output}},
    {"dense", {&LoraTargets::output}},
    {"w3", {&LoraTargets::up}},
    {"c_fc", {&LoraTargets::up}},
    {"fc1", {&LoraTargets::up}},
    {"fc2", {&LoraTargets::down}},
    {"dense_h_to_4h", {&LoraTargets::gate, &LoraTargets::up}},
    {"dense_4h_to_h", {&LoraTargets::down}},
    {"gate_up", {&LoraTargets::gate, &LoraTargets::up}},
    {"query_key_value", {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value}},
    {"w_pack", {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value}},
    {"wqkv", {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value}},
    {"qkv", {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value}},
    {"c_attn", {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value}},
    {"attention",
     {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value, &LoraTargets::output}},
    {"mlp", {&LoraTargets::gate, &LoraTargets::up, &LoraTargets::down}},
    {"all-linear",
     {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value, &LoraTargets::output,
      &LoraTargets::gate, &LoraTargets::up, &LoraTargets::down}},
    {"all",
     {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value, &LoraTargets::output,
      &LoraTargets::gate, &LoraTargets::up, &LoraTargets::down}},
};

bool Add(std::string_view word, LoraTargets& targets) {
  for (const TargetWord& known : kTargetWords) {
    if (known.word != word) continue;
    for (const Targets matrix : known.matrices) targets.*matrix = true;
    return true;
  }
  return false;
}

}  // namespace

Result<LoraTargets> ParseLoraTargets(std::string_view words) {
  LoraTargets targets;
  for (const std::string_view each : base::Split(words, ',')) {
    std::string word = base::ToLower(base::Trim(each));
    if (Add(word, targets)) continue;
    if (word.ends_with("_proj")) word.resize(word.size() - 5);
    if (Add(word, targets)) continue;
    return Invalid("'" + base::Printable(each, 40) +
                   "': expected one or more of q,k,v,o,gate,up,down, or attention, mlp, all");
  }
  return targets;
}

void UseMegatron(TrainingPlan& plan) {
  plan.megatron = plan.fused_layers = true;
  plan.amp = false;
  if (plan.weights == Dtype::kFp32) plan.weights = Dtype::kBf16;  // the master weights stay in fp32
  if (plan.loss == Loss::kStock) plan.loss = Loss::kInPlace;
}

}  // namespace carma::estimate
