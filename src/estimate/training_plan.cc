#include "estimate/training_plan.h"

#include <algorithm>
#include <initializer_list>

#include "base/text.h"

namespace carma::estimate {
namespace {

using Targets = bool LoraTargets::*;

struct TargetWords {
  std::initializer_list<std::string_view> words;  // of equal meaning
  std::initializer_list<Targets> matrices;
};

// Names of the matrices in PEFT, in LitGPT and in the code of model families.
const TargetWords kTargetWords[] = {
    {{"q", "query"}, {&LoraTargets::query}},
    {{"k", "key"}, {&LoraTargets::key}},
    {{"v", "value"}, {&LoraTargets::value}},
    {{"o", "output", "projection", "wo", "dense"}, {&LoraTargets::output}},
    {{"gate", "w1"}, {&LoraTargets::gate}},
    {{"up", "w2", "w3", "c_fc", "fc1"}, {&LoraTargets::up}},
    {{"down", "fc2", "dense_4h_to_h"}, {&LoraTargets::down}},
    {{"c_proj"}, {&LoraTargets::output, &LoraTargets::down}},
    {{"gate_up", "dense_h_to_4h"}, {&LoraTargets::gate, &LoraTargets::up}},
    {{"qkv", "query_key_value", "w_pack", "wqkv", "c_attn"},
     {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value}},
    {{"attention"},
     {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value, &LoraTargets::output}},
    {{"mlp"}, {&LoraTargets::gate, &LoraTargets::up, &LoraTargets::down}},
    {{"all", "all-linear"},
     {&LoraTargets::query, &LoraTargets::key, &LoraTargets::value, &LoraTargets::output,
      &LoraTargets::gate, &LoraTargets::up, &LoraTargets::down}},
};

bool Add(std::string_view word, LoraTargets& targets) {
  for (const auto& [words, matrices] : kTargetWords) {
    if (std::ranges::find(words, word) == words.end()) continue;
    for (const Targets matrix : matrices) targets.*matrix = true;
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
                   "': expected one or more of q, k, v, o, gate, up, down, attention, mlp, all");
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
