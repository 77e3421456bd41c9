// Compares the closed form with the bytes that autograd saves for one block. The bytes were counted
// with saved_tensors_hooks on blocks in plain PyTorch that match those of Transformers and
// diffusers. They exclude weights and duplicate tensors, but include what fused attention kernels
// save. Each case has three values (fp32, bf16, autocast), in bytes per token and element of the
// width. Unlike the closed form, these values include the statistics of norms and attention.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "estimate/transformer/peak.h"

namespace carma::estimate {
namespace {

struct Precision3 {
  Dtype weights;
  bool amp;
  const char* name;
};
constexpr Precision3 kPrecisions[] = {
    {Dtype::kFp32, false, "fp32"}, {Dtype::kBf16, false, "bf16"}, {Dtype::kFp32, true, "amp"}};

struct AutogradCase {
  const char* name;
  const char* config;  // {} stands for the number of blocks
  double width;
  double counted[3];
  bool eager = false;
};

constexpr AutogradCase kAutogradCases[] = {
    {"DiT",
     R"({{"_class_name":"DiTTransformer2DModel","num_layers":{},"num_attention_heads":4,
         "attention_head_dim":16}})",
     64,
     {81.25, 40.75, 52.88}},
    {"PixArt, which reads text",
     R"({{"_class_name":"PixArtTransformer2DModel","num_layers":{},"num_attention_heads":4,
         "attention_head_dim":16}})",
     64,
     {93.75, 47.12, 59.29}},
    {"a Flux block whose parts run in parallel",
     R"({{"_class_name":"FluxTransformer2DModel","num_layers":2,"num_single_layers":{},
         "num_attention_heads":4,"attention_head_dim":16}})",
     64,
     {85.79, 51.52, 65.59}},
    {"CLIP's images",
     R"({{"model_type":"clip_vision_model","num_hidden_layers":{},"hidden_size":64,
         "num_attention_heads":4,"intermediate_size":256}})",
     64,
     {80.50, 40.38, 48.50}},
    {"SigLIP's images",
     R"({{"model_type":"siglip_vision_model","num_hidden_layers":{},"hidden_size":64,
         "num_attention_heads":4,"intermediate_size":256,"hidden_act":"gelu_pytorch_tanh"}})",
     64,
     {64.50, 32.38, 40.50}},
    {"wav2vec 2.0",
     R"({{"model_type":"wav2vec2","num_hidden_layers":{},"hidden_size":64,"vocab_size":32,
         "num_attention_heads":4,"intermediate_size":256,"activation_dropout":0.1}})",
     64,
     {70.50, 38.38, 46.50}},
    {"Whisper's decoder",
     R"({{"model_type":"whisper","encoder_layers":2,"decoder_layers":{},"d_model":64,
         "vocab_size":32,"encoder_attention_heads":4,"encoder_ffn_dim":256,"dropout":0.0}})",
     64,
     {88.88, 44.69, 58.88}},
    {"Mamba without kernels",
     R"({{"model_type":"mamba","num_hidden_layers":{},"hidden_size":64,"state_size":16,
         "time_step_rank":4,"vocab_size":32}})",
     64,
     {476.15, 505.11, 511.11},
     true},
};

double ActivationBytes(const AutogradCase& each, const Precision3& precision, int blocks) {
  const auto config = ParseTransformerConfig(fmt::format(fmt::runtime(each.config), blocks), "c");
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return 0;
  TrainingPlan plan;
  plan.sequence = 1'000;
  plan.target = 1'000;
  plan.batch = 500;
  plan.weights = precision.weights;
  plan.amp = precision.amp;
  if (each.eager) plan.attention = Attention::kEager;
  const auto estimate = EstimateTransformer(*config, plan, 0.9);
  EXPECT_TRUE(estimate) << estimate.error().message;
  constexpr double kTokens = 1'000 * 500;
  return estimate ? estimate->parts.activations * 1024 * 1024 / kTokens : 0;
}

TEST(Autograd, KeepsTheBytesThatTheClosedFormCounts) {
  for (const AutogradCase& each : kAutogradCases) {
    for (std::size_t i = 0; i < std::size(kPrecisions); ++i) {
      const double four = ActivationBytes(each, kPrecisions[i], 4);
      const double block = (ActivationBytes(each, kPrecisions[i], 6) - four) / 2 / each.width;
      EXPECT_NEAR(block / each.counted[i], 0.985, 0.02) << each.name << ", " << kPrecisions[i].name;
    }
  }
}

}  // namespace
}  // namespace carma::estimate
