#include "estimate/recipe/plan_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "estimate/training_plan.h"

namespace carma::estimate {
namespace {

Result<base::Json> Parsed(std::string_view text, std::string_view where) {
  if (text.size() > kMaxConfigBytes)
    return Invalid("{}: expected at most {} bytes", where, kMaxConfigBytes);
  Result<base::Json> json = base::ParseJson(text);
  if (!json) return base::Wrap(json.error(), where);
  return json;
}

// Collects words. The source of each word is the file and the key.
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

// Returns true if the value is "auto", which Hugging Face's trainer replaces with an actual value.
bool IsAuto(const base::Json* value) {
  return value != nullptr && value->is_string() && *value == "auto";
}

void GetUnlessAuto(base::JsonReader& in, const char* key, std::int64_t& target, std::int64_t high) {
  if (!IsAuto(in.Raw(key))) in.Get(key, target, 0, high);
}

// The device of an offload_* object. "none" if the object is missing.
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

// Enabling bf16 or fp16 also stores the weights in that precision, regardless of the model's own
// precision.
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

// The folder part of a path, with a trailing slash. Empty for a bare file name.
std::string FolderOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(path.substr(0, slash + 1));
}

using TextReader = std::function<Result<std::string>(const std::string& path)>;

// An autoencoder's parameter count, computed from the widths of its levels. Each level has two
// residual blocks on the way down, three on the way up, and a convolution that changes the
// resolution. In addition, the encoder and the decoder each have two blocks with an attention layer
// between them. A residual block has two 3x3 convolutions.
double AutoencoderParameters(const base::Json& json) {
  double parameters = 0;
  double last = 0;
  const auto widths = json.find("block_out_channels");
  if (widths == json.end() || !widths->is_array() || widths->size() > 16) return 0;
  for (const base::Json& each : *widths) {
    if (!each.is_number_integer()) return 0;
    last = std::clamp(each.get<double>(), 1.0, 100'000.0);
    parameters += (2 + 3) * 18 * last * last + 2 * 9 * last * last;
  }
  return parameters + 2 * (2 * 18 + 4) * last * last;
}

}  // namespace

bool IsTable(std::string_view module) {
  return module == "embed_tokens" || module == "lm_head" || module == "wte";
}

Result<TrainingWords> ReadDeepSpeed(std::string_view text, std::string_view where) {
  const base::Json json = CARMA_TRY(Parsed(text, where));
  base::JsonReader in(json, "");
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
  const base::Json json = CARMA_TRY(Parsed(text, where));
  base::JsonReader in(json, "");
  Found words(where);
  std::string kind = "LORA";
  in.Get("peft_type", kind, 100);
  if (kind != "LORA") in.Complain("peft_type", "LORA (other adapters are not modelled)");
  words.Add("method", "lora", "peft_type");
  std::int64_t rank = 0;
  if (in.Get("r", rank, 1, 1'000'000)) words.Add("lora-rank", std::to_string(rank), "r");
  double dropout = 0;
  in.Get("lora_dropout", dropout, 0, 1);
  if (dropout > 0) words.Add("lora-dropout", "on", "lora_dropout");
  std::vector<std::string> saved;
  in.Get("modules_to_save", saved, 1000, 1000);
  if (std::ranges::any_of(saved, IsTable)) words.Add("train-embeddings", "on", "modules_to_save");
  GetTargets(in, words);
  if (in.error()) return base::Wrap(*in.error(), where);
  return words.Take();
}

Result<TrainingWords> ReadWeightIndex(std::string_view text, std::string_view where,
                                      const TransformerConfig& config) {
  Found words(where);
  if (config.quantisation) return words.Take();
  const base::Json json = CARMA_TRY(Parsed(text, where));
  base::JsonReader in(json, "");
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

Result<TrainingWords> ReadTokenizer(std::string_view text, std::string_view where) {
  const base::Json json = CARMA_TRY(Parsed(text, where));
  Found words(where);
  // A tokenizer without a limit has a model_max_length of thirty digits.
  constexpr double kMost = 1e9;
  if (!json.is_object()) return words.Take();
  const auto length = json.find("model_max_length");
  if (length == json.end() || !length->is_number()) return words.Take();
  const double tokens = length->get<double>();
  if (tokens >= 1 && tokens <= kMost)
    words.Add("tokenizer-len", std::to_string(static_cast<std::int64_t>(tokens)),
              "model_max_length");
  return words.Take();
}

TrainingWords ReadBeside(const std::string& config_path, const TransformerConfig& config,
                         const TextReader& read) {
  TrainingWords words;
  const auto add = [&](const std::string& file, const auto& words_of) {
    const Result<std::string> text = read(FolderOf(config_path) + file);
    if (!text) return;
    if (const Result<TrainingWords> found = words_of(*text, file))
      words.insert(words.end(), found->begin(), found->end());
  };
  add("model.safetensors.index.json", [&](std::string_view text, std::string_view where) {
    return ReadWeightIndex(text, where, config);
  });
  if (!config.sees_images && !config.blocks) add("tokenizer_config.json", &ReadTokenizer);
  return words;
}

bool IsPipeline(std::string_view text) {
  const Result<base::Json> json = base::ParseJson(text);
  if (!json || !json->is_object()) return false;
  const auto name = json->find("_class_name");
  return name != json->end() && name->is_string() && name->get<std::string>().ends_with("Pipeline");
}

Result<PipelineFound> ReadPipeline(std::string_view text, const std::string& path,
                                   const TextReader& read) {
  const base::Json json = CARMA_TRY(Parsed(text, path));
  if (!json.is_object()) return Invalid(path + ": expected an object");
  PipelineFound found;
  double frozen = 0;
  Found words("model_index.json");
  for (const auto& [part, library] : json.items()) {
    // A part is written as [library, class]; an omitted part is [null, null].
    if (!library.is_array() || library.size() != 2 || !library.back().is_string()) continue;
    if (part.contains('/') || part.contains("..")) continue;
    const std::string config = FolderOf(path) + part + "/config.json";
    if (part == "unet" || part == "transformer") {
      found.config = config;
      continue;
    }
    const bool is_vae = part == "vae";
    if (!is_vae && !part.starts_with("text_encoder")) continue;
    const Result<std::string> described = read(config);
    if (is_vae) words.Add("encodes-images", "on", part);
    if (!described) continue;
    if (is_vae) {
      if (const Result<base::Json> vae = Parsed(*described, config); vae && vae->is_object())
        frozen += AutoencoderParameters(*vae);
    } else if (const auto encoder = ParseTransformerConfig(*described, config)) {
      frozen += encoder->TotalParameters();
    }
  }
  if (found.config.empty()) return Invalid(path + ": expected a part named unet or transformer");
  constexpr double kMostParameters = 1e15;
  if (frozen >= 1)
    words.Add("frozen-parameters",
              std::to_string(static_cast<std::int64_t>(std::min(frozen, kMostParameters))),
              "text encoders and vae");
  found.words = words.Take();
  return found;
}

}  // namespace carma::estimate
