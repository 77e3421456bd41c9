#include "estimate/block_list.h"

#include <gtest/gtest.h>

#include "estimate/transformer_config.h"

namespace carma::estimate {
namespace {

constexpr const char* kStableDiffusion =
    R"({"_class_name":"UNet2DConditionModel","attention_head_dim":8,
        "block_out_channels":[320,640,1280,1280],"cross_attention_dim":768,
        "down_block_types":["CrossAttnDownBlock2D","CrossAttnDownBlock2D","CrossAttnDownBlock2D",
                            "DownBlock2D"],
        "up_block_types":["UpBlock2D","CrossAttnUpBlock2D","CrossAttnUpBlock2D",
                          "CrossAttnUpBlock2D"],
        "in_channels":4,"layers_per_block":2,"sample_size":64})";

TransformerConfig ParsedUnet(const std::string& text) {
  const auto config = ParseTransformerConfig(text, "c");
  EXPECT_TRUE(config) << config.error().message;
  return config.value_or(TransformerConfig{});
}

double Kept(const BlockList& list, bool frozen) {
  double elements = 0;
  for (const BlockKeeps& block : list.blocks)
    elements += block.wide + block.kept + (frozen ? 0 : block.read);
  return 4 * elements;
}

// Bytes that autograd saves per latent pixel for the same modules in PyTorch, in fp32 and with
// fused attention.
TEST(UNetConfig, CountsTheBytesThatAutogradKeeps) {
  const TransformerConfig config = ParsedUnet(kStableDiffusion);
  ASSERT_TRUE(config.blocks);
  EXPECT_NEAR(config.TotalParameters(), 859.5e6, 1e6);
  EXPECT_EQ(config.positions, 64 * 64);
  EXPECT_NEAR(Kept(*config.blocks, false), 454'400, 2'000);
  EXPECT_NEAR(Kept(*config.blocks, true), 376'000, 8'000);
}

TEST(UNetConfig, LevelsMayDifferInDepthAndAttention) {
  const TransformerConfig config = ParsedUnet(
      R"({"_class_name":"UNet2DConditionModel","attention_head_dim":[5,10,20],
          "block_out_channels":[320,640,1280],"cross_attention_dim":2048,
          "down_block_types":["DownBlock2D","CrossAttnDownBlock2D","CrossAttnDownBlock2D"],
          "up_block_types":["CrossAttnUpBlock2D","CrossAttnUpBlock2D","UpBlock2D"],
          "projection_class_embeddings_input_dim":2816,"sample_size":128,
          "transformer_layers_per_block":[1,2,10],"use_linear_projection":true})");
  EXPECT_NEAR(config.TotalParameters(), 2567e6, 4e6) << "as its model card says";
}

TEST(UNetConfig, ReportsListsOfTheWrongLength) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {R"({"_class_name":"UNet2DModel","block_out_channels":[8,16],
           "down_block_types":["DownBlock2D"],"up_block_types":["UpBlock2D","UpBlock2D"]})",
       "/down_block_types: expected 2 types"},
      {R"({"_class_name":"UNet2DModel","block_out_channels":[8,"x"]})",
       "/block_out_channels: expected numbers from 1 to 100000"},
      {R"({"_class_name":"UNet2DModel","block_out_channels":[8],
           "down_block_types":["DownBlockFlat"],"up_block_types":["UpBlock2D"]})",
       "/down_block_types: expected blocks like DownBlock2D"},
  };
  for (const auto& each : cases) {
    const auto config = ParseTransformerConfig(each.text, "c");
    ASSERT_FALSE(config) << each.text;
    EXPECT_NE(config.error().message.find(each.expected), std::string::npos)
        << config.error().message;
  }
}

}  // namespace
}  // namespace carma::estimate
