#include "estimate/recipe/plan_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/json.h"
#include "base/text.h"
#include "estimate/training_plan.h"

namespace carma::estimate {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

Result<base::Json> Parsed(std::string_view text, std::string_view where) {
  if (text.size() > kMaxConfigBytes) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("{}: expected at most {} bytes", where, kMaxConfigBytes));
  }
  Result<base::Json> json = base::ParseJson(text);
  if (!json) return base::Wrap(json.error(), where);
  return json;
}

// Collects words with the file and the key as their source.
class Found {
 public:
  explicit Found(std::string_view where) : where_(where) {}
  void Add(std::string_view name, std::string value, std::string_view key) {
    words_.push_back({std::string(name), std::move(value), fmt::format("{}: {}", where_, key)});
  }
  TrainingWords Take() { return std::move(words_); }

 private:
  std::string_view where_;
  TrainingWords words_;
};

// Hugging Face's trainer fills in values that a file sets to "auto".
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

void GetZero(base::JsonReader& outer, Found& words) {
  const base::Json* found = outer.Raw("zero_optimization");
  if (found == nullptr) return;
  base::JsonReader in(*found, outer.pointer() + "/zero_optimization");
  std::int64_t stage = 0;
  in.Get("stage", stage, 0, 3);
  const std::string kind = stage == 0 ? "ddp" : fmt::format("zero{}", stage);
  words.Add("dp", kind, "zero_optimization.stage");
  std::string offloaded;
  if (DeviceOf(in, "offload_optimizer") != "none") offloaded = "optimizer";
  if (DeviceOf(in, "offload_param") != "none")
    offloaded += offloaded.empty() ? "params" : ",params";
  if (!offloaded.empty()) words.Add("offload", offloaded, "zero_optimization");
  if (in.error()) outer.Take(*in.error());
}

// bf16 and fp16 store the weights in that precision, whatever the model's own is.
void GetPrecision(base::JsonReader& outer, const char* key, Found& words) {
  const base::Json* found = outer.Raw(key);
  if (found == nullptr) return;
  base::JsonReader in(*found, fmt::format("{}/{}", outer.pointer(), key));
  bool enabled = false;
  if (!IsAuto(in.Raw("enabled"))) in.Get("enabled", enabled);
  if (in.error()) return outer.Take(*in.error());
  if (enabled) words.Add("weights", key, fmt::format("{}.enabled", key));
}

void GetTargets(base::JsonReader& in, Found& words) {
  const base::Json* found = in.Raw("target_modules");
  if (found == nullptr) return;
  std::vector<std::string> names;
  if (found->is_string()) {
    std::string name;
    if (in.Get("target_modules", name, 1000)) names.push_back(std::move(name));
  } else {
    in.Get("target_modules", names, 1000, 1000);
  }
  if (in.error()) return;
  std::string list = base::Join(names, ",");
  if (const Result<LoraTargets> targets = ParseLoraTargets(list); !targets)
    return in.Complain("target_modules", targets.error().message);
  words.Add("lora-targets", std::move(list), "target_modules");
}

}  // namespace

bool IsTable(std::string_view module) {
  return module == "embed_tokens" || module == "lm_head" || module == "wte";
}

Result<TrainingWords> ReadDeepSpeed(std::string_view text, std::string_view where) {
  const Result<base::Json> json = Parsed(text, where);
  if (!json) return std::unexpected(json.error());
  base::JsonReader in(*json, "");
  Found words(where);
  words.Add("deepspeed-engine", "on", "DeepSpeed");
  std::int64_t passes = 0;
  std::int64_t samples = 0;
  GetUnlessAuto(in, "gradient_accumulation_steps", passes, 1'000'000);
  GetUnlessAuto(in, "train_micro_batch_size_per_gpu", samples, 1'000'000);
  if (passes > 1) words.Add("grad-accum", "on", "gradient_accumulation_steps");
  if (samples > 0) words.Add("batch", std::to_string(samples), "train_micro_batch_size_per_gpu");
  GetPrecision(in, "bf16", words);
  GetPrecision(in, "fp16", words);
  GetZero(in, words);
  if (in.error()) return base::Wrap(*in.error(), where);
  return words.Take();
}

Result<TrainingWords> ReadAdapterConfig(std::string_view text, std::string_view where) {
  const Result<base::Json> json = Parsed(text, where);
  if (!json) return std::unexpected(json.error());
  base::JsonReader in(*json, "");
  Found words(where);
  std::string kind = "LORA";
  in.Get("peft_type", kind, 100);
  if (kind != "LORA") in.Complain("peft_type", "LORA: other adapters are not modelled");
  words.Add("method", "lora", "peft_type");
  std::int64_t rank = 0;
  if (in.Get("r", rank, 1, 1'000'000)) words.Add("lora-rank", std::to_string(rank), "r");
  double dropout = 0;
  in.Get("lora_dropout", dropout, 0, 1);
  if (dropout > 0) words.Add("lora-dropout", "on", "lora_dropout");
  std::vector<std::string> saved;
  in.Get("modules_to_save", saved, 1000, 1000);
  if (std::any_of(saved.begin(), saved.end(), IsTable))
    words.Add("train-embeddings", "on", "modules_to_save");
  GetTargets(in, words);
  if (in.error()) return base::Wrap(*in.error(), where);
  return words.Take();
}

Result<TrainingWords> ReadWeightIndex(std::string_view text, std::string_view where,
                                      const TransformerConfig& config) {
  Found words(where);
  if (config.quantisation) return words.Take();
  const Result<base::Json> json = Parsed(text, where);
  if (!json) return std::unexpected(json.error());
  base::JsonReader in(*json, "");
  const base::Json* metadata = in.Raw("metadata");
  if (metadata == nullptr || !metadata->is_object()) return words.Take();
  base::JsonReader inner(*metadata, "/metadata");
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
  std::int64_t bytes = 0;
  inner.Get("total_size", bytes, 1, kMostBytes);
  if (inner.error()) return base::Wrap(*inner.error(), where);
  const std::int64_t size = config.dtype == Dtype::kFp32 ? 4 : 2;
  if (bytes > 0) words.Add("parameters", std::to_string(bytes / size), "total_size");
  return words.Take();
}

std::string WeightIndexBeside(std::string_view config_path) {
  const std::size_t slash = config_path.rfind('/');
  const std::string_view folder =
      slash == std::string_view::npos ? "" : config_path.substr(0, slash + 1);
  return std::string(folder) + "model.safetensors.index.json";
}

}  // namespace carma::estimate
