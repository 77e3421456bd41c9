#include "estimate/transformer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/json.h"
#include "base/text.h"

namespace carma::estimate {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxWidth = 10'000'000;
constexpr std::int64_t kMaxVocabulary = 100'000'000;

// What the code of a family does that its config.json need not say.
struct Family {
  std::string_view name;
  bool gated = true;
  bool rms_norm = true;
  bool tied = false;  // unless tie_word_embeddings says otherwise
  bool learned_positions = false;
  bool one_key_head = false;    // multi_query is on unless it says otherwise
  bool drops_out = false;       // unless its rate is said to be 0
  bool halved_forward = false;  // intermediate_size counts both halves of the gated part
};

constexpr Family kFamilies[] = {
    {.name = "llama"},
    {.name = "mistral"},
    {.name = "mixtral"},
    {.name = "qwen", .halved_forward = true},
    {.name = "qwen2"},
    {.name = "qwen2_moe"},
    {.name = "qwen3"},
    {.name = "qwen3_moe"},
    {.name = "gemma", .tied = true},
    {.name = "gemma2", .tied = true},
    {.name = "gemma3_text", .tied = true},
    {.name = "granite"},
    {.name = "granitemoe"},
    {.name = "phi3"},
    {.name = "glm"},
    {.name = "glm4"},
    {.name = "chatglm"},
    {.name = "baichuan"},
    {.name = "internlm2"},
    {.name = "olmo", .rms_norm = false},
    {.name = "olmo2"},
    {.name = "olmoe"},
    {.name = "stablelm", .rms_norm = false},
    {.name = "cohere", .rms_norm = false, .tied = true},
    {.name = "starcoder2", .gated = false, .rms_norm = false, .tied = true},
    {.name = "phi", .gated = false, .rms_norm = false},
    {.name = "gpt2",
     .gated = false,
     .rms_norm = false,
     .tied = true,
     .learned_positions = true,
     .drops_out = true},
    {.name = "gpt_bigcode",
     .gated = false,
     .rms_norm = false,
     .tied = true,
     .learned_positions = true,
     .one_key_head = true,
     .drops_out = true},
    {.name = "gpt_neox", .gated = false, .rms_norm = false},
    {.name = "falcon", .gated = false, .rms_norm = false, .tied = true, .one_key_head = true},
    {.name = "opt",
     .gated = false,
     .rms_norm = false,
     .tied = true,
     .learned_positions = true,
     .drops_out = true},
    {.name = "bert",
     .gated = false,
     .rms_norm = false,
     .tied = true,
     .learned_positions = true,
     .drops_out = true},
    {.name = "roberta",
     .gated = false,
     .rms_norm = false,
     .tied = true,
     .learned_positions = true,
     .drops_out = true},
};

using Keys = std::initializer_list<const char*>;

// The first of the keys that is there. False: none is.
bool GetFirst(base::JsonReader& in, Keys keys, std::int64_t& target, std::int64_t low,
              std::int64_t high) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const char* key) { return in.Get(key, target, low, high); });
}

// The same for a number without which nothing can be said.
void Need(base::JsonReader& in, Keys keys, std::int64_t& target, std::int64_t high) {
  if (GetFirst(in, keys, target, 1, high) || in.error()) return;
  std::string others;
  for (const char* const* key = keys.begin() + 1; key != keys.end(); ++key)
    others += fmt::format(" or {}", *key);
  in.Complain(*keys.begin(), fmt::format("a number, and the file has no such key{}", others));
}

const Family* FamilyOf(base::JsonReader& in) {
  std::string name;
  in.Get("model_type", name, 100);
  if (in.error()) return nullptr;
  for (const Family& family : kFamilies) {
    if (family.name == name) return &family;
  }
  std::vector<std::string> known;
  for (const Family& family : kFamilies) known.emplace_back(family.name);
  in.Complain("model_type",
              fmt::format("a family whose layers are known ({}), and '{}' is not one: a model "
                          "summary serves it (carma_summary.py)",
                          base::Join(known, ", "), base::Printable(name, 40)));
  return nullptr;
}

void GetWidths(base::JsonReader& in, const Family& family, TransformerConfig& config) {
  Need(in, {"num_hidden_layers", "n_layer", "num_layers"}, config.layers, kMaxLayers);
  Need(in, {"hidden_size", "n_embd"}, config.hidden, kMaxWidth);
  Need(in, {"num_attention_heads", "n_head"}, config.heads, kMaxWidth);
  Need(in, {"vocab_size", "padded_vocab_size"}, config.vocabulary, kMaxVocabulary);
  (void)in.Get("padded_vocab_size", config.vocabulary, 1, kMaxVocabulary);
  if (in.error()) return;
  bool one_key_head = family.one_key_head;
  bool new_decoder = false;  // of Falcon: heads of keys are counted again
  bool grouped = true;       // of ChatGLM: multi_query_group_num counts only with multi_query on
  if (family.one_key_head) in.Get("multi_query", one_key_head);
  if (family.one_key_head) in.Get("new_decoder_architecture", new_decoder);
  in.Get("multi_query_attention", grouped);
  config.kv_heads = config.heads;
  if (one_key_head && !new_decoder) {
    config.kv_heads = 1;
  } else if (!GetFirst(in, {"num_key_value_heads", "num_kv_heads"}, config.kv_heads, 1,
                       config.heads) &&
             grouped) {
    in.Get("multi_query_group_num", config.kv_heads, 1, config.heads);
  }
  config.head_width = std::max<std::int64_t>(1, config.hidden / config.heads);
  GetFirst(in, {"head_dim", "kv_channels"}, config.head_width, 1, kMaxWidth);
  config.feed_forward = 4 * config.hidden;
  const bool said = GetFirst(in, {"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"},
                             config.feed_forward, 1, kMaxWidth);
  if (!said && family.gated) {
    in.Complain("intermediate_size", "a number, and the file has no such key or ffn_hidden_size");
  }
  if (family.halved_forward)
    config.feed_forward = std::max<std::int64_t>(1, config.feed_forward / 2);
  if (family.learned_positions)
    GetFirst(in, {"n_positions", "max_position_embeddings"}, config.positions, 0, kMaxVocabulary);
}

void GetDropout(base::JsonReader& in, const Family& family, TransformerConfig& config) {
  double rate = family.drops_out ? 0.1 : 0;
  for (const char* key : {"hidden_dropout_prob", "resid_pdrop", "dropout"}) in.Get(key, rate, 0, 1);
  config.drops_out = family.drops_out && rate > 0;
}

// In Transformers these are formulas; the others are single operations.
void GetActivation(base::JsonReader& in, TransformerConfig& config) {
  std::string name = config.family == "gpt2" ? "gelu_new" : "";
  if (!in.Get("activation_function", name, 100)) in.Get("hidden_act", name, 100);
  config.written_out_gelu = name == "gelu_new" || name == "gelu_fast";
  double cap = 0;
  in.Get("final_logit_softcapping", cap, 0, 1e9);
  config.capped_scores = cap > 0;
}

// Architectures are named as their classes: "BertForSequenceClassification".
void GetHead(base::JsonReader& in, TransformerConfig& config) {
  const base::Json* names = in.Raw("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string())
    return;
  config.classifies = IsClassifier(names->front().get<std::string>());
}

void GetExperts(base::JsonReader& in, TransformerConfig& config) {
  if (!GetFirst(in, {"num_local_experts", "num_experts"}, config.experts, 1, 10'000)) return;
  Need(in, {"num_experts_per_tok"}, config.active_experts, config.experts);
  in.Get("moe_intermediate_size", config.feed_forward, 1, kMaxWidth);
  in.Get("shared_expert_intermediate_size", config.shared_forward, 0, kMaxWidth);
}

void GetQuantisation(base::JsonReader& outer, TransformerConfig& config) {
  const base::Json* found = outer.Raw("quantization_config");
  if (found == nullptr) return;
  base::JsonReader in(*found, outer.pointer() + "/quantization_config");
  std::string method;
  std::string type = "fp4";
  std::int64_t bits = 0;
  bool in_4bit = false;
  bool in_8bit = false;
  bool doubly = false;
  in.Get("quant_method", method, 100);
  in.Get("bits", bits, 1, 16);
  in.Get("load_in_4bit", in_4bit);
  in.Get("load_in_8bit", in_8bit);
  in.Get("bnb_4bit_quant_type", type, 100);
  in.Get("bnb_4bit_use_double_quant", doubly);
  if (in.error()) return outer.Take(*in.error());
  const bool packed = method == "gptq" || method == "awq";
  if (in_4bit) {
    config.quantisation = doubly ? Quantisation::kNf4Double : Quantisation::kNf4;
  } else if (packed && bits == 4) {
    config.quantisation = Quantisation::kGptq4;
  } else if (in_8bit || (packed && bits == 8)) {
    config.quantisation = Quantisation::kInt8;
  } else {
    outer.Complain("quantization_config",
                   "bitsandbytes in 4 or 8 bits, gptq or awq: others are not modelled");
  }
}

void GetDtype(base::JsonReader& in, TransformerConfig& config) {
  std::string name;
  if (!in.Get("torch_dtype", name, 100) && !in.Get("dtype", name, 100)) return;
  config.dtype = base::FromWord<Dtype>(name);
  if (!config.dtype) in.Complain("torch_dtype", base::AllWords<Dtype>());
}

}  // namespace

bool IsClassifier(std::string_view class_name) {
  constexpr std::string_view kHeads[] = {"ForSequenceClassification", "ForTokenClassification",
                                         "ForQuestionAnswering", "ForMultipleChoice"};
  return std::ranges::any_of(kHeads, [&](std::string_view head) {
    return class_name.find(head) != std::string_view::npos;
  });
}

double TransformerConfig::QueryWidth() const {
  return static_cast<double>(heads) * static_cast<double>(head_width);
}

double TransformerConfig::KeyValueWidth() const {
  return static_cast<double>(kv_heads) * static_cast<double>(head_width);
}

double TransformerConfig::BlockParameters() const {
  const auto width = static_cast<double>(hidden);
  const double matrices = gated ? 3 : 2;
  const double forward = static_cast<double>(feed_forward) * static_cast<double>(experts) +
                         static_cast<double>(shared_forward);
  return width * (2 * QueryWidth() + 2 * KeyValueWidth()) + matrices * width * forward;
}

double TransformerConfig::MatrixParameters() const {
  return static_cast<double>(layers) * BlockParameters();
}

double TransformerConfig::TotalParameters() const {
  if (stated_parameters) return *stated_parameters;
  const auto width = static_cast<double>(hidden);
  const double tables =
      static_cast<double>(vocabulary) * (tied ? 1 : 2) + static_cast<double>(positions);
  const double norms = static_cast<double>(2 * layers + 1) * (rms_norm ? 1 : 2);
  const double routers = experts > 1 ? static_cast<double>(layers * experts) : 0;
  return MatrixParameters() + width * (tables + norms + routers);
}

Result<TransformerConfig> ParseTransformerConfig(std::string_view text, std::string_view where) {
  if (text.size() > kMaxConfigBytes) {
    return Fail(ErrorCode::kInvalid, fmt::format("{}: expected a config.json of at most {} bytes",
                                                 where, kMaxConfigBytes));
  }
  const Result<base::Json> json = base::ParseJson(text);
  if (!json) return base::Wrap(json.error(), where);
  base::JsonReader in(*json, "");
  TransformerConfig config;
  const Family* family = in.error() ? nullptr : FamilyOf(in);
  if (family != nullptr) {
    config.family = family->name;
    config.gated = family->gated;
    config.rms_norm = family->rms_norm;
    config.tied = family->tied;
    in.Get("tie_word_embeddings", config.tied);
    GetWidths(in, *family, config);
    GetExperts(in, config);
    GetActivation(in, config);
    GetHead(in, config);
    GetDropout(in, *family, config);
    GetDtype(in, config);
    GetQuantisation(in, config);
  }
  if (in.error()) return base::Wrap(*in.error(), where);
  return config;
}

}  // namespace carma::estimate
