#include "estimate/transformer_family.h"

#include <algorithm>
#include <initializer_list>

#include "estimate/transformer_config.h"

namespace carma::estimate {
namespace {

using Transformer = TransformerFamily;

// Families with LayerNorm and two matrices in the feed-forward part.
constexpr Transformer kPlain = {.gated = false, .rms_norm = false};
// Like kPlain, with the properties of BERT.
constexpr Transformer kBert = {
    .gated = false, .rms_norm = false, .tied = true, .learned_positions = true, .drops_out = true};
// Like kPlain, for models whose tokens are image patches.
constexpr Transformer kImages = {
    .gated = false, .rms_norm = false, .sees_images = true, .wide_scores = true};

// A copy of a family with a different name, additional properties and different sizes.
consteval Transformer Like(std::string_view name, Transformer family,
                           std::initializer_list<bool Transformer::*> besides = {},
                           FamilySizes sizes = {}) {
  family.name = name;
  for (bool Transformer::*const each : besides) family.*each = true;
  family.sizes = sizes;
  return family;
}

// Taken from the modelling code of Transformers 4.30 to 4.57.
constexpr Transformer kTransformers[] = {
    // Decoders similar to Llama, with RMSNorm, a gated feed-forward part and rotary positions.
    {.name = "llama", .sizes = {32, 4096, 32, 0, 11008, 32000}},
    {.name = "llama4_text"},
    {.name = "mistral", .sizes = {32, 4096, 32, 8, 14336, 32000}},
    {.name = "ministral"},
    {.name = "mixtral"},
    {.name = "mllama_text_model"},
    {.name = "qwen", .halved_forward = true},
    {.name = "qwen2"},
    {.name = "qwen2_moe"},
    {.name = "qwen2_vl"},
    {.name = "qwen2_vl_text"},
    {.name = "qwen2_5_vl"},
    {.name = "qwen2_5_vl_text"},
    {.name = "qwen3", .norms_heads = true},
    {.name = "qwen3_moe", .norms_heads = true},
    {.name = "qwen3_vl_text", .norms_heads = true},
    {.name = "gemma", .tied = true, .head_width = 256},
    {.name = "gemma2", .tied = true, .norms = 4, .head_width = 256},
    {.name = "gemma3_text",
     .tied = true,
     .norms_heads = true,
     .norms = 4,
     .head_width = 256,
     .sizes = {26, 2304, 8, 4, 9216, 262208}},
    {.name = "granite"},
    {.name = "granitemoe"},
    {.name = "phi3"},
    {.name = "phimoe", .rms_norm = false, .wide_scores = true},
    {.name = "glm"},
    {.name = "glm4", .norms = 4},
    {.name = "glm4_moe"},
    {.name = "chatglm"},
    {.name = "baichuan"},
    {.name = "internlm"},
    {.name = "internlm2"},
    {.name = "internlm3"},
    {.name = "deepseek"},
    {.name = "deepseek_v2"},
    {.name = "deepseek_v3"},
    {.name = "minicpm"},
    {.name = "minicpm3"},
    {.name = "smollm3", .tied = true},
    {.name = "exaone"},
    {.name = "exaone4", .norms_heads = true},
    {.name = "ernie4_5", .tied = true},
    {.name = "seed_oss"},
    {.name = "hunyuan_v1_dense", .tied = true, .norms_heads = true},
    {.name = "gpt_oss", .unfused = true},
    {.name = "olmo", .rms_norm = false, .wide_scores = true},
    {.name = "olmo2", .norms_heads = true},
    {.name = "olmo3", .norms_heads = true},
    {.name = "olmoe"},
    {.name = "stablelm", .rms_norm = false, .wide_scores = true},
    {.name = "cohere", .rms_norm = false, .tied = true, .wide_scores = true},
    {.name = "cohere2", .rms_norm = false, .tied = true, .wide_scores = true},
    // Decoders with LayerNorm and two matrices in their feed-forward part.
    Like("starcoder2", kPlain, {&Transformer::tied, &Transformer::wide_scores}),
    Like("nemotron", kPlain, {&Transformer::wide_scores}),
    Like("phi", kPlain, {&Transformer::wide_scores}),
    Like("persimmon", kPlain, {&Transformer::one_projection, &Transformer::wide_scores}),
    Like("gpt2", kBert, {&Transformer::one_projection, &Transformer::written_out_gelu}),
    Like("gpt_neo", kPlain,
         {&Transformer::tied, &Transformer::learned_positions, &Transformer::wide_scores,
          &Transformer::unfused, &Transformer::written_out_gelu}),
    Like("gptj", kPlain,
         {&Transformer::wide_scores, &Transformer::unfused, &Transformer::written_out_gelu}),
    Like("codegen", kPlain,
         {&Transformer::one_projection, &Transformer::wide_scores, &Transformer::unfused,
          &Transformer::written_out_gelu}),
    Like("gpt_bigcode", kBert,
         {&Transformer::one_projection, &Transformer::one_key_head, &Transformer::wide_scores}),
    Like("gpt_neox", kPlain, {&Transformer::one_projection, &Transformer::wide_scores}),
    Like("falcon", kPlain,
         {&Transformer::one_projection, &Transformer::tied, &Transformer::one_key_head}),
    Like("bloom", kPlain,
         {&Transformer::one_projection, &Transformer::tied, &Transformer::wide_scores,
          &Transformer::unfused}),
    Like("mpt", kPlain,
         {&Transformer::one_projection, &Transformer::tied, &Transformer::wide_scores,
          &Transformer::unfused}),
    Like("opt", kBert, {&Transformer::wide_scores}),
    // Text encoders.
    Like("bert", kBert, {&Transformer::plain_loss}),
    Like("roberta", kBert, {&Transformer::plain_loss}),
    Like("xlm-roberta", kBert, {&Transformer::plain_loss}),
    Like("camembert", kBert, {&Transformer::plain_loss}),
    Like("mpnet", kBert, {&Transformer::plain_loss, &Transformer::unfused}),
    Like("distilbert", kBert, {&Transformer::plain_loss}),
    Like("electra", kBert, {&Transformer::plain_loss, &Transformer::unfused}),
    // Versions 2 and 3 of DeBERTa. Their table of relative positions is as large as BERT's table of
    // positions.
    Like("deberta-v2", kBert, {&Transformer::plain_loss, &Transformer::unfused}),
    Like("albert", kPlain,
         {&Transformer::plain_loss, &Transformer::tied, &Transformer::learned_positions,
          &Transformer::repeats_block, &Transformer::written_out_gelu}),
    {.name = "modernbert",
     .one_projection = true,
     .plain_loss = true,
     .rms_norm = false,
     .tied = true,
     .wide_scores = true},
    // Encoder-decoder models.
    {.name = "t5",
     .plain_loss = true,
     .gated = false,
     .tied = true,
     .drops_out = true,
     .encodes_decodes = true,
     .unfused = true},
    {.name = "mt5",
     .plain_loss = true,
     .drops_out = true,
     .encodes_decodes = true,
     .unfused = true},
    Like("bart", kBert, {&Transformer::plain_loss, &Transformer::encodes_decodes}),
    Like("mbart", kBert, {&Transformer::plain_loss, &Transformer::encodes_decodes}),
    Like("pegasus", kPlain,
         {&Transformer::plain_loss, &Transformer::tied, &Transformer::drops_out,
          &Transformer::encodes_decodes}),
    Like("marian", kPlain,
         {&Transformer::plain_loss, &Transformer::tied, &Transformer::drops_out,
          &Transformer::encodes_decodes}),
    Like("whisper", kPlain,
         {&Transformer::plain_loss, &Transformer::tied, &Transformer::drops_out,
          &Transformer::encodes_decodes, &Transformer::hears}),
    // Image encoders.
    Like("vit", kImages),
    Like("deit", kImages),
    Like("dinov2", kImages),
    Like("siglip_vision_model", kImages, {}, {12, 768, 12, 0, 3072, 0}),
    Like("clip_vision_model", kImages, {&Transformer::quick_gelu}, {12, 768, 12, 0, 3072, 0}),
    // Models with two towers, and their text encoders.
    Like("clip", kPlain, {&Transformer::compares}),
    Like("siglip", kPlain, {&Transformer::compares}),
    Like("clip_text_model", kPlain,
         {&Transformer::quick_gelu, &Transformer::tied, &Transformer::learned_positions,
          &Transformer::wide_scores},
         {12, 512, 8, 0, 2048, 49408}),
    Like("siglip_text_model", kPlain,
         {&Transformer::tied, &Transformer::learned_positions, &Transformer::wide_scores},
         {12, 768, 12, 0, 3072, 32000}),
    // Audio encoders.
    Like("wav2vec2", kPlain,
         {&Transformer::drops_forward, &Transformer::drops_out, &Transformer::hears_waves}),
    Like("hubert", kPlain,
         {&Transformer::drops_forward, &Transformer::drops_out, &Transformer::hears_waves}),
    Like("wavlm", kPlain,
         {&Transformer::drops_forward, &Transformer::drops_out, &Transformer::hears_waves,
          &Transformer::unfused}),
    // State-space models.
    {.name = "mamba", .tied = true, .mamba = 1},
    {.name = "falcon_mamba", .tied = true, .mamba = 1},
    {.name = "mamba2", .mamba = 2},
};

}  // namespace

bool IsClassifier(std::string_view class_name) {
  constexpr std::string_view kHeads[] = {"ForSequenceClassification", "ForTokenClassification",
                                         "ForQuestionAnswering", "ForMultipleChoice"};
  return std::ranges::any_of(kHeads, [&](std::string_view h) { return class_name.contains(h); });
}

std::span<const TransformerFamily> TransformerFamilies() {
  return kTransformers;
}

const TransformerFamily* FindFamily(std::string_view name) {
  const auto* const found = std::ranges::find(kTransformers, name, &TransformerFamily::name);
  return found == std::end(kTransformers) ? nullptr : found;
}

}  // namespace carma::estimate
