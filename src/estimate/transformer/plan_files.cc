#include "estimate/transformer/plan_files.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace carma::estimate {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

Result<base::Json> Parsed(std::string_view text, std::string_view where) {
  if (text.size() > kMaxConfigBytes) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: expected at most {} bytes", where, kMaxConfigBytes));
  }
  Result<base::Json> json = base::ParseJson(text);
  if (!json) return base::Wrap(json.error(), where);
  return json;
}

// Hugging Face's trainer fills in what a file calls "auto".
bool IsAuto(const base::Json* value) {
  return value != nullptr && value->is_string() && *value == "auto";
}

void GetUnlessAuto(base::JsonReader& in, const char* key, std::int64_t& target, std::int64_t high) {
  if (!IsAuto(in.Raw(key))) in.Get(key, target, 0, high);
}

// The device of an offload_* object; "none" without one.
std::string DeviceOf(base::JsonReader& outer, const char* key) {
  std::string device = "none";
  const base::Json* found = outer.Raw(key);
  if (found == nullptr) return device;
  base::JsonReader in(*found, fmt::format("{}/{}", outer.pointer(), key));
  in.Get("device", device, 100);
  if (in.error()) outer.Take(*in.error());
  return device;
}

void GetZero(base::JsonReader& outer, TrainingPlan& plan) {
  const base::Json* found = outer.Raw("zero_optimization");
  if (found == nullptr) return;
  base::JsonReader in(*found, outer.pointer() + "/zero_optimization");
  std::int64_t stage = 0;
  in.Get("stage", stage, 0, 3);
  constexpr DataParallel kStages[] = {DataParallel::kDdp, DataParallel::kZero1,
                                      DataParallel::kZero2, DataParallel::kZero3};
  if (!in.error()) plan.data_parallel = kStages[stage];
  plan.offload_optimizer = plan.offload_optimizer || DeviceOf(in, "offload_optimizer") != "none";
  plan.offload_parameters = plan.offload_parameters || DeviceOf(in, "offload_param") != "none";
  if (in.error()) outer.Take(*in.error());
}

void GetTargets(base::JsonReader& in, TrainingPlan& plan) {
  const base::Json* found = in.Raw("target_modules");
  if (found == nullptr) return;
  std::vector<std::string> words;
  if (found->is_string()) {
    std::string word;
    if (in.Get("target_modules", word, 1000)) words.push_back(std::move(word));
  } else {
    in.Get("target_modules", words, 1000, 1000);
  }
  if (in.error()) return;
  const Result<LoraTargets> targets = ParseLoraTargets(base::Join(words, ","));
  if (!targets) return in.Complain("target_modules", targets.error().message);
  plan.lora_targets = *targets;
}

}  // namespace

Result<Unit> ApplyDeepSpeed(std::string_view text, std::string_view where, TrainingPlan& plan) {
  const Result<base::Json> json = Parsed(text, where);
  if (!json) return std::unexpected(json.error());
  base::JsonReader in(*json, "");
  std::int64_t passes = 0;
  GetUnlessAuto(in, "gradient_accumulation_steps", passes, 1'000'000);
  GetZero(in, plan);
  if (in.error()) return base::Wrap(*in.error(), where);
  plan.deepspeed = true;
  plan.accumulates = plan.accumulates || passes > 1;
  return Unit{};
}

Result<Unit> ApplyAdapterConfig(std::string_view text, std::string_view where, TrainingPlan& plan) {
  const Result<base::Json> json = Parsed(text, where);
  if (!json) return std::unexpected(json.error());
  base::JsonReader in(*json, "");
  std::string kind = "LORA";
  in.Get("peft_type", kind, 100);
  if (kind != "LORA") in.Complain("peft_type", "LORA: other adapters are not modelled");
  in.Get("r", plan.lora_rank, 1, 1'000'000);
  double dropout = 0;
  in.Get("lora_dropout", dropout, 0, 1);
  std::vector<std::string> saved;
  in.Get("modules_to_save", saved, 1000, 1000);
  GetTargets(in, plan);
  if (in.error()) return base::Wrap(*in.error(), where);
  plan.method = Method::kLora;
  plan.lora_dropout = dropout > 0;
  for (const std::string& module : saved) {
    plan.trains_embeddings = plan.trains_embeddings || module == "embed_tokens" ||
                             module == "lm_head" || module == "wte";
  }
  return Unit{};
}

}  // namespace carma::estimate
