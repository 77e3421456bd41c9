#include "estimate/transformer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/json.h"
#include "base/suggest.h"
#include "base/text.h"
#include "estimate/block_list.h"
#include "estimate/media_config.h"
#include "estimate/transformer_family.h"

namespace carma::estimate {
namespace {

constexpr std::int64_t kMaxBlocks = 10'000;
constexpr std::int64_t kMaxHidden = 10'000'000;
constexpr std::int64_t kMaxVocabulary = 100'000'000;

using Keys = std::initializer_list<const char*>;

// Reads the first key that exists. Returns false if none exists.
bool GetFirst(base::JsonReader& in, Keys keys, std::int64_t& target, std::int64_t low,
              std::int64_t high) {
  return std::ranges::any_of(keys, [&](const char* key) { return in.Get(key, target, low, high); });
}

// Reads a required number from the first key that is present. If none is, a `target` that is
// already above 0 is kept as the default.
void Need(base::JsonReader& in, Keys keys, std::int64_t& target, std::int64_t high) {
  if (GetFirst(in, keys, target, 1, high) || in.error() || target > 0) return;
  std::string others;
  for (const char* const* key = keys.begin() + 1; key != keys.end(); ++key)
    others += fmt::format(" or {}", *key);
  in.Complain(*keys.begin(),
              fmt::format("a number, but the file does not have this key{}", others));
}

// Suggests the family or class with the most similar name. If no name is similar, suggests the one
// that shares the longest prefix with `name`. Empty if that prefix is shorter than three
// characters.
std::string NearestFamily(std::string_view name) {
  std::vector<std::string> names = DiffusionClasses();
  for (const TransformerFamily& family : TransformerFamilies()) names.emplace_back(family.name);
  if (const std::optional<std::string> near = base::DidYouMean(name, names, 2)) return *near;
  std::string nearest;
  std::size_t most = 2;
  for (const std::string& each : names) {
    const auto [own, other] = std::ranges::mismatch(name, each);
    const auto shared = static_cast<std::size_t>(own - name.begin());
    if (shared <= most) continue;
    most = shared;
    nearest = each;
  }
  return nearest;
}

const TransformerFamily* FamilyOf(const std::string& name, base::JsonReader& in) {
  if (const TransformerFamily* known = FindFamily(name)) return known;
  if (name.ends_with("Pipeline")) {
    in.Complain("_class_name",
                "a single model, not a pipeline; pass the config.json in its unet or transformer "
                "folder, or use --hf-config with this file");
    return nullptr;
  }
  const std::string nearest = NearestFamily(name);
  in.Complain("model_type",
              fmt::format("one of the {} known model families, not '{}'{}; "
                          "'carma estimate --run' measures one step of the script instead",
                          TransformerFamilies().size(), base::Printable(name, 40),
                          nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
  return nullptr;
}

void GetHeads(base::JsonReader& in, const TransformerFamily& family, TransformerConfig& config) {
  bool one_key_head = family.one_key_head;
  bool new_decoder = false;  // Falcon's new architecture, which states the number of key heads
  bool grouped = true;       // ChatGLM: multi_query_group_num is used only if multi_query is on
  if (family.one_key_head) in.Get("multi_query", one_key_head);
  if (family.one_key_head) in.Get("new_decoder_architecture", new_decoder);
  in.Get("multi_query_attention", grouped);
  config.kv_heads = config.heads;
  if (family.sizes.kv_heads > 0) config.kv_heads = std::min(family.sizes.kv_heads, config.heads);
  if (one_key_head && !new_decoder) {
    config.kv_heads = 1;
  } else if (!GetFirst(in, {"num_key_value_heads", "num_kv_heads"}, config.kv_heads, 1,
                       config.heads) &&
             grouped) {
    in.Get("multi_query_group_num", config.kv_heads, 1, config.heads);
  }
  config.head_width = std::max<std::int64_t>(1, config.hidden / config.heads);
  if (family.head_width > 0) config.head_width = family.head_width;
  GetFirst(in, {"head_dim", "kv_channels", "d_kv"}, config.head_width, 1, kMaxHidden);
}

// Reads the sizes of multi-head latent attention. Part of each head's width is rotated according to
// the position, and keys and values are computed from one latent vector.
void GetLatents(base::JsonReader& in, TransformerConfig& config) {
  std::int64_t latent = 0;
  if (!in.Get("kv_lora_rank", latent, 1, kMaxHidden)) return;
  std::int64_t fixed = 0;
  std::int64_t turning = 0;
  std::int64_t narrow = 0;  // latent width of queries; 0: computed directly from the stream
  Need(in, {"qk_nope_head_dim"}, fixed, kMaxHidden);
  Need(in, {"qk_rope_head_dim"}, turning, kMaxHidden);
  in.Get("q_lora_rank", narrow, 1, kMaxHidden);
  config.value_width = std::max<std::int64_t>(1, config.hidden / config.heads);
  in.Get("v_head_dim", config.value_width, 1, kMaxHidden);
  config.kv_heads = config.heads;
  config.head_width = fixed + turning;
  const auto width = static_cast<double>(config.hidden);
  const double query = narrow > 0 ? static_cast<double>(narrow) * (width + config.QueryWidth())
                                  : width * config.QueryWidth();
  const double expanded =
      static_cast<double>(config.heads) * static_cast<double>(fixed + config.value_width);
  config.latent_parameters = query + width * static_cast<double>(latent + turning) +
                             static_cast<double>(latent) * expanded + config.OutputWidth() * width;
}

// The first class in "architectures", such as "BertForSequenceClassification".
std::string ClassOf(base::JsonReader& in) {
  const base::Json* names = in.Raw("architectures");
  const bool named = names != nullptr && names->is_array() && !names->empty();
  return named && names->front().is_string() ? names->front().get<std::string>() : "";
}

// Reads the decoder. Classes such as T5EncoderModel have none.
void GetDecoder(base::JsonReader& in, TransformerConfig& config) {
  const std::string name = ClassOf(in);
  if (name.ends_with("EncoderModel") || name.ends_with("ForAudioClassification")) {
    config.encodes_only = true;
    return;
  }
  std::int64_t decoder = config.layers;
  GetFirst(in, {"num_decoder_layers", "decoder_layers"}, decoder, 1, kMaxBlocks);
  config.layers += decoder;
  config.decoder_layers = decoder;
}

// Reads the sizes of an image model. Its tokens are the patches and one additional token.
void GetImage(base::JsonReader& in, TransformerConfig& config) {
  std::int64_t image = 224;
  std::int64_t patch = 16;
  std::int64_t channels = 3;
  in.Get("image_size", image, 1, 100'000);
  in.Get("patch_size", patch, 1, image);
  in.Get("num_channels", channels, 1, 1'000);
  config.sees_images = config.one_length = config.classifies = true;
  config.token_pixels = patch;
  config.text_tokens = 1;  // a token that represents the whole image
  config.positions = (image / patch) * (image / patch) + config.text_tokens;
  config.other_parameters =
      static_cast<double>(channels * patch * patch) * static_cast<double>(config.hidden);
  bool gated = false;
  in.Get("use_swiglu_ffn", gated);
  if (!gated) return;
  constexpr std::int64_t kStep = 8;
  config.gated = true;
  config.feed_forward = (config.hidden * 8 / 3 + kStep - 1) / kStep * kStep;
}

// Reads an audio encoder whose two convolutions turn each clip's spectrogram into a fixed number of
// tokens.
void GetSound(base::JsonReader& in, TransformerConfig& config) {
  std::int64_t bands = 80;
  config.positions = 1500;
  config.decoder_positions = 448;
  in.Get("num_mel_bins", bands, 1, 10'000);
  in.Get("max_source_positions", config.positions, 1, kMaxVocabulary);
  in.Get("max_target_positions", config.decoder_positions, 1, kMaxVocabulary);
  config.one_length = true;
  constexpr std::int64_t kKernel = 3;
  config.other_parameters =
      static_cast<double>(kKernel * (bands + config.hidden)) * static_cast<double>(config.hidden);
}

void GetForward(base::JsonReader& in, const TransformerFamily& family, TransformerConfig& config) {
  double ratio = 4;
  for (const char* key : {"expansion_ratio", "mlp_ratio"}) in.Get(key, ratio, 0.01, 1'000);
  config.feed_forward =
      std::max<std::int64_t>(1, std::llround(ratio * static_cast<double>(config.hidden)));
  const bool said = GetFirst(in,
                             {"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim",
                              "hidden_dim", "d_ff", "encoder_ffn_dim"},
                             config.feed_forward, 1, kMaxHidden);
  if (!said && family.sizes.feed_forward > 0) {
    config.feed_forward = family.sizes.feed_forward;
  } else if (!said && family.gated) {
    in.Complain("intermediate_size", "a number (ffn_hidden_size is not set either)");
  }
  if (family.halved_forward)
    config.feed_forward = std::max<std::int64_t>(1, config.feed_forward / 2);
}

void GetWidths(base::JsonReader& in, const TransformerFamily& family, TransformerConfig& config) {
  config.layers = family.sizes.layers;
  config.hidden = family.sizes.hidden;
  config.heads = family.sizes.heads;
  config.vocabulary = family.sizes.vocabulary;
  Need(in, {"num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"},
       config.layers, kMaxBlocks);
  Need(in, {"hidden_size", "n_embd", "d_model", "dim", "n_embed"}, config.hidden, kMaxHidden);
  if (family.mamba > 0) config.heads = 1;
  if (family.mamba == 0) {
    Need(in, {"num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads"},
         config.heads, kMaxHidden);
  }
  if (!family.sees_images)
    Need(in, {"vocab_size", "padded_vocab_size"}, config.vocabulary, kMaxVocabulary);
  (void)in.Get("padded_vocab_size", config.vocabulary, 1, kMaxVocabulary);
  if (in.error()) return;
  GetFirst(in, {"embedding_size", "word_embed_proj_dim"}, config.table_width, 1, kMaxHidden);
  if (config.table_width == config.hidden) config.table_width = 0;
  if (family.mamba > 0) {
    config.kv_heads = config.head_width = config.feed_forward = 1;
    config.blocks = ReadMamba(in, config.layers, config.hidden, family.mamba == 2);
    return;
  }
  GetHeads(in, family, config);
  GetLatents(in, config);
  GetForward(in, family, config);
  if (family.learned_positions)
    GetFirst(in, {"n_positions", "max_position_embeddings"}, config.positions, 0, kMaxVocabulary);
  if (family.encodes_decodes) GetDecoder(in, config);
  if (family.sees_images) GetImage(in, config);
  if (family.hears) GetSound(in, config);
  if (family.hears_waves) ReadWaves(in, ClassOf(in).ends_with("ForPreTraining"), config);
}

void GetDropout(base::JsonReader& in, const TransformerFamily& family, TransformerConfig& config) {
  double rate = family.drops_out ? 0.1 : 0;
  for (const char* key :
       {"hidden_dropout_prob", "resid_pdrop", "dropout", "dropout_rate", "hidden_dropout"})
    in.Get(key, rate, 0, 1);
  config.drops_out = family.drops_out && rate > 0;
  double dropout = family.drops_forward ? 0.1 : 0;
  in.Get("activation_dropout", dropout, 0, 1);
  config.drops_forward = family.drops_out && dropout > 0;
  for (const char* key : {"attention_probs_dropout_prob", "attn_pdrop", "attention_dropout"})
    in.Get(key, rate, 0, 1);
  config.drops_scores = family.drops_out && rate > 0;
}

// Reads the activation. Some activations in Transformers consist of several operations; all others
// are single operations.
void GetActivation(base::JsonReader& in, const TransformerFamily& family,
                   TransformerConfig& config) {
  std::string name = family.written_out_gelu ? "gelu_new" : family.quick_gelu ? "quick_gelu" : "";
  for (const char* key : {"activation_function", "hidden_act", "feed_forward_proj"})
    if (in.Get(key, name, 100)) break;
  // T5's "gated-gelu" is gated, and its gelu is written out as a formula.
  if (name.starts_with("gated-")) config.gated = true;
  config.written_out_gelu = name == "gelu_new" || name == "gelu_fast" || name == "gated-gelu";
  config.quick_gelu = name == "quick_gelu";
  double cap = 0;
  in.Get("final_logit_softcapping", cap, 0, 1e9);
  config.capped_scores = cap > 0;
}

// Either the first few blocks have no experts (DeepSeek), or only every n-th block has any (Llama
// 4).
void GetBlocksWithout(base::JsonReader& in, TransformerConfig& config) {
  std::int64_t step = 1;
  in.Get("first_k_dense_replace", config.dense_layers, 0, config.layers);
  if (GetFirst(in, {"interleave_moe_layer_step", "decoder_sparse_step"}, step, 1, kMaxBlocks))
    config.dense_layers = config.layers - config.layers / step;
}

void GetExperts(base::JsonReader& in, TransformerConfig& config) {
  if (!GetFirst(in, {"num_local_experts", "num_experts", "n_routed_experts"}, config.experts, 1,
                10'000) ||
      config.experts == 1)
    return;
  config.active_experts = 0;
  Need(in, {"num_experts_per_tok"}, config.active_experts, config.experts);
  config.dense_forward = config.feed_forward;
  in.Get("intermediate_size_mlp", config.dense_forward, 1, kMaxHidden);
  in.Get("moe_intermediate_size", config.feed_forward, 1, kMaxHidden);
  in.Get("shared_expert_intermediate_size", config.shared_forward, 0, kMaxHidden);
  std::int64_t shared = 0;
  if (GetFirst(in, {"n_shared_experts", "num_shared_experts"}, shared, 0, 1'000))
    config.shared_forward = shared * config.feed_forward;
  // Llama 4 has a shared expert that its file does not mention.
  if (in.Has("interleave_moe_layer_step")) config.shared_forward = config.feed_forward;
  GetBlocksWithout(in, config);
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
  // These formats are used only for serving. In training, the model has 16-bit weights.
  if (method == "fp8" || method == "mxfp4") return;
  if (in_4bit) {
    config.quantisation = doubly ? Quantisation::kNf4Double : Quantisation::kNf4;
  } else if (packed && bits == 4) {
    config.quantisation = Quantisation::kGptq4;
  } else if (in_8bit || (packed && bits == 8)) {
    config.quantisation = Quantisation::kInt8;
  } else {
    outer.Complain("quantization_config",
                   "bitsandbytes, gptq or awq in 4 or 8 bits (others are not modelled)");
  }
}

void GetDtype(base::JsonReader& in, TransformerConfig& config) {
  std::string name;
  if (!in.Get("torch_dtype", name, 100) && !in.Get("dtype", name, 100)) return;
  if (name == "auto") return;
  config.dtype = base::FromWord<Dtype>(name);
  if (!config.dtype) in.Complain("torch_dtype", base::AllWords<Dtype>());
}

// Reads values that apply to the whole model rather than to its text part.
void GetWhole(base::JsonReader& in, TransformerConfig& config) {
  in.Get("tie_word_embeddings", config.tied);
  config.classifies = config.classifies || IsClassifier(ClassOf(in)) || config.encodes_only;
  GetDtype(in, config);
  GetQuantisation(in, config);
}

// Keys of image and audio encoders, whose parameter counts are computed from their dimensions.
constexpr std::string_view kEncoders[] = {"vision_config", "visual",         "vision_tower",
                                          "vision_cfg",    "vision_encoder", "audio_config",
                                          "audio_cfg",     "speech_config",  "audio_encoder"};

// Reads the size of an image or audio encoder. Every key is optional. Returns false if no size is
// given.
bool GetEncoder(base::JsonReader& outer, const char* key, TransformerConfig& config) {
  const base::Json* found = outer.Raw(key);
  base::JsonReader in(*found, outer.pointer() + "/" + key);
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t forward = 0;
  GetFirst(in, {"num_hidden_layers", "depth", "layers", "num_layers", "encoder_layers"}, layers, 1,
           kMaxBlocks);
  GetFirst(in, {"embed_dim", "hidden_size", "width", "d_model"}, width, 1, kMaxHidden);
  std::int64_t more = 0;
  if (in.Get("num_global_layers", more, 0, kMaxBlocks)) layers += more;
  double ratio = 4;
  in.Get("mlp_ratio", ratio, 0, 1'000);
  if (!GetFirst(in, {"intermediate_size", "encoder_ffn_dim"}, forward, 1, kMaxHidden))
    forward = static_cast<std::int64_t>(ratio * static_cast<double>(width));
  if (in.error() || layers == 0 || width == 0) return false;
  const bool gated = in.Has("out_hidden_size") && in.Has("fullatt_block_indexes");
  const auto wide = static_cast<double>(width);
  config.other_parameters += static_cast<double>(layers) * wide *
                             (4 * wide + (gated ? 3 : 2) * static_cast<double>(forward));
  return true;
}

bool TellsSizes(const base::Json& part) {
  constexpr const char* kSizes[] = {"num_hidden_layers", "hidden_size", "layers", "depth",
                                    "num_layers",        "embed_dim",   "width",  "d_model",
                                    "encoder_layers"};
  return std::ranges::any_of(kSizes, [&](const char* key) { return part.contains(key); });
}

// Reads all parts of the file outside the text stack. For each part, either the weights are counted
// or the part is listed as uncounted.
void GetParts(const base::Json& whole, const std::string& text_part, base::JsonReader& in,
              TransformerConfig& config) {
  if (!whole.is_object()) return;
  for (const auto& [key, part] : whole.items()) {
    if (!part.is_object() || "/" + key == text_part) continue;
    const bool encoder = std::ranges::find(kEncoders, std::string_view(key)) != std::end(kEncoders);
    const bool counted = encoder && GetEncoder(in, key.c_str(), config);
    if (!counted && (encoder || TellsSizes(part)))
      config.uncounted.push_back(base::Printable(key, 40));
  }
}

// The part that reads text in a model with several kinds of input; otherwise the model itself.
const base::Json& TextPart(const base::Json& json, std::string& pointer) {
  if (!json.is_object()) return json;
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_object()) continue;
    pointer = fmt::format("/{}", key);
    return *found;
  }
  return json;
}

// Reads a stack from the part of the file that describes it.
void GetStack(base::JsonReader& in, const TransformerFamily& family, TransformerConfig& config) {
  config.gated = family.gated;
  config.rms_norm = family.rms_norm;
  config.tied = family.tied;
  config.repeats_block = family.repeats_block;
  config.unfused_attention = family.unfused;
  config.wide_scores = family.wide_scores;
  config.norms_heads = family.norms_heads;
  config.norms = family.norms;
  config.one_projection = family.one_projection;
  config.plain_loss = family.plain_loss;
  GetWidths(in, family, config);
  GetExperts(in, config);
  GetActivation(in, family, config);
  GetDropout(in, family, config);
}

// Reads the towers of a model that compares images with texts. Missing keys get the defaults from
// the model's code. The image tower comes first, because images usually have more tokens.
void GetTowers(base::JsonReader& whole, TransformerConfig& config) {
  const std::string family = config.family;
  const auto get = [&](const char* key, const char* kind, TransformerConfig& tower) {
    static const base::Json kNothing = base::Json::object();
    const base::Json* found = whole.Raw(key);
    base::JsonReader in(found != nullptr ? *found : kNothing, fmt::format("/{}", key));
    GetStack(in, *FindFamily(family + kind), tower);
    if (in.error()) whole.Take(*in.error());
  };
  get("vision_config", "_vision_model", config);
  TransformerConfig text;
  get("text_config", "_text_model", text);
  if (text.positions == 0) text.positions = family == "clip" ? 77 : 64;
  text.classifies = true;
  config.towers.push_back(std::move(text));
}

}  // namespace

Result<TransformerConfig> ParseTransformerConfig(std::string_view text, std::string_view where) {
  if (text.size() > kMaxConfigBytes)
    return Invalid("{}: expected a config.json of at most {} bytes", where, kMaxConfigBytes);
  const Result<base::Json> json = base::ParseJson(text);
  if (!json) return base::Wrap(json.error(), where);
  std::string pointer;
  const base::Json& text_part = TextPart(*json, pointer);
  base::JsonReader whole(*json, "");
  if (whole.error()) return base::Wrap(*whole.error(), where);
  base::JsonReader in(text_part, pointer);
  TransformerConfig config;
  std::string outer;
  whole.Get("model_type", outer, 100);
  config.family = outer;
  in.Get("model_type", config.family, 100);
  // A diffusers file describes only one part of a model and names its class: a U-Net, a diffusion
  // transformer or an autoencoder.
  if (config.family.empty()) whole.Get("_class_name", config.family, 100);
  if (FindFamily(config.family) == nullptr && FindFamily(outer) != nullptr) config.family = outer;
  if (in.error()) return base::Wrap(*in.error(), where);
  if (const TransformerFamily* both = FindFamily(outer); both != nullptr && both->compares) {
    config.family = outer;
    GetTowers(whole, config);
    GetWhole(whole, config);
  } else if (IsDiffusion(config.family)) {
    ReadDiffusion(whole, config);
    GetDtype(whole, config);
  } else if (const TransformerFamily* known = FamilyOf(config.family, in); known != nullptr) {
    TransformerFamily family = *known;
    const bool nested = &text_part != &*json;
    if (!nested) family.sizes = {};  // a separate file must state all sizes
    GetStack(in, family, config);
    GetWhole(in, config);
    if (nested) GetWhole(whole, config);
    GetParts(*json, pointer, whole, config);
  }
  if (in.error()) return base::Wrap(*in.error(), where);
  if (whole.error()) return base::Wrap(*whole.error(), where);
  return config;
}

}  // namespace carma::estimate
