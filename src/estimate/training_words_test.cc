#include "estimate/training_words.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace carma::estimate {
namespace {

using task::TrainingWord;

TEST(TrainingWords, UsesTheLastWordOfEachName) {
  const std::vector<TrainingWord> words = {{"seq-len", "512", "a.yaml:1"},
                                           {"method", "QLoRA", "a.yaml:2"},
                                           {"amp", "on", "a.yaml:3"},
                                           {"seq-len", "1024", ""},
                                           {"amp", "off", ""}};
  const auto plan = PlanOf(words, TransformerConfig{});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->sequence, 1024);
  EXPECT_FALSE(plan->amp);
  EXPECT_EQ(plan->method, Method::kLora);
  EXPECT_EQ(plan->quantisation, Quantisation::kNf4);
  EXPECT_TRUE(plan->fp32_residual && plan->lora_targets.query && !plan->lora_targets.key);
}

TEST(TrainingWords, WeightsOfUnknownPrecisionAreFp32UnlessQuantised) {
  struct Case {
    std::vector<TrainingWord> words;
    Dtype weights;
    bool assumed;
  };
  const Case cases[] = {
      {{}, Dtype::kFp32, true},
      {{{"amp", "on", ""}}, Dtype::kFp32, true},
      {{{"precision", "amp", ""}}, Dtype::kFp32, true},
      {{{"method", "qlora", ""}, {"precision", "amp", ""}}, Dtype::kBf16, true},
      {{{"megatron", "on", ""}}, Dtype::kBf16, true},
      {{{"amp", "on", ""}, {"deepspeed-engine", "on", ""}}, Dtype::kBf16, true},
      {{{"precision", "bf16", ""}}, Dtype::kBf16, false},
      {{{"precision", "amp", ""}, {"weights", "bf16", ""}}, Dtype::kBf16, false},
  };
  for (const Case& each : cases) {
    const auto plan = PlanOf(each.words, TransformerConfig{});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->weights, each.weights);
    const std::string remark =
        fmt::format("precision of the stored weights unknown: {} assumed (--weights)",
                    base::WordOf(each.weights));
    const std::vector<std::string> assumed = Assumptions(each.words, TransformerConfig{}, *plan);
    EXPECT_EQ(std::ranges::count(assumed, remark), each.assumed ? 1 : 0) << remark;
  }
  TransformerConfig stated;
  stated.dtype = Dtype::kFp16;
  const std::vector<TrainingWord> amp = {{"precision", "amp", ""}};
  EXPECT_EQ(PlanOf(amp, stated)->weights, Dtype::kFp16);
}

TEST(TrainingWords, EveryOptionHasAnEffectAndRejectsInvalidValues) {
  for (const task::TrainingOption& option : task::TrainingOptions()) {
    const auto checked = CheckWords(std::vector<TrainingWord>{{std::string(option.name), "?", ""}});
    ASSERT_FALSE(checked) << option.name;
    EXPECT_TRUE(checked.error().message.starts_with("--" + std::string(option.name) + ": "))
        << checked.error().message;
  }
}

TEST(TrainingWords, DividesTheGpusAmongTheKindsOfParallelism) {
  std::vector<TrainingWord> words = {{"gpus", "8", ""}, {"tp", "2", ""}, {"dp", "fsdp", ""}};
  const auto plan = PlanOf(words, TransformerConfig{});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->ranks, 4);
  words[0].value = "3";
  EXPECT_EQ(PlanOf(words, TransformerConfig{}).error().message,
            "--gpus: '3': expected a multiple of --tp x --pp x --cp, which is 2");
}

TEST(TrainingWords, ADecoderHasItsOwnLength) {
  TransformerConfig config;
  config.layers = 12;
  config.decoder_layers = 6;
  const std::vector<TrainingWord> said = {
      {"seq-len", "512", ""}, {"batch", "8", ""}, {"weights", "fp32", ""}};
  const auto silent = PlanOf(said, config);
  ASSERT_TRUE(silent);
  EXPECT_FALSE(silent->target);
  ASSERT_EQ(Assumptions(said, config, *silent).size(), 1U);
  EXPECT_NE(Assumptions(said, config, *silent)[0].find("512 tokens assumed (--target-len)"),
            std::string::npos);
  std::vector<TrainingWord> more = said;
  more.push_back({"target-len", "128", ""});
  EXPECT_EQ(PlanOf(more, config)->target, 128);
  EXPECT_TRUE(Assumptions(more, config, *PlanOf(more, config)).empty());
}

TEST(TrainingWords, UsesAnImagesPatchesUnlessALengthIsStated) {
  TransformerConfig config;
  config.sees_images = config.one_length = true;
  config.positions = 3'137;  // more than the assumed text length
  EXPECT_EQ(PlanOf({}, config)->sequence, 3'137);
  EXPECT_EQ(Assumptions({}, config, *PlanOf({}, config))[0],
            "assuming images of 3137 patches, as in config.json (--seq-len)");
  const std::vector<TrainingWord> said = {{"seq-len", "197", ""}};
  EXPECT_EQ(PlanOf(said, config)->sequence, 197);
}

TEST(TrainingWords, ReportsIgnoredSettings) {
  const std::vector<TrainingWord> said = {{"seq-len", "128", ""},
                                          {"batch", "4", ""},
                                          {"precision", "bf16", ""},
                                          {"lora-rank", "8", ""},
                                          {"dp", "fsdp", "t.sh:3: --fsdp"},
                                          {"micro-batches", "4", ""},
                                          {"ep", "1", ""}};
  const TransformerConfig config;
  const auto plan = PlanOf(said, config);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(Assumptions(said, config, *plan),
            (std::vector<std::string>{"--lora-rank 8 is ignored: the training method is full",
                                      "t.sh:3: --fsdp: dp fsdp is ignored: there is only one GPU, "
                                      "so the weights cannot be sharded",
                                      "--micro-batches 4 is ignored: there is no pipeline",
                                      "--ep 1 is ignored: the model has no experts"}));
}

TEST(TrainingWords, LimitsAnUnknownLengthToTheTableOfPositions) {
  TransformerConfig bert;
  bert.positions = 512;
  EXPECT_EQ(PlanOf({}, bert)->sequence, 512);
  EXPECT_EQ(PlanOf({}, TransformerConfig{})->sequence, 2048);
  EXPECT_EQ(Assumptions({}, bert, *PlanOf({}, bert)).size(), 3U);
  const std::vector<TrainingWord> said = {
      {"seq-len", "128", ""}, {"batch", "4", ""}, {"precision", "bf16", ""}};
  EXPECT_TRUE(Assumptions(said, bert, *PlanOf(said, bert)).empty());
}

TEST(TrainingWords, AddsAReferenceOnlyForPreferencesWithoutAdapters) {
  struct Case {
    std::vector<TrainingWord> words;
    bool reference;
  };
  const Case cases[] = {
      {{{"objective", "dpo", ""}}, true},
      {{{"objective", "DPO", ""}, {"method", "lora", ""}}, false},
      {{{"objective", "dpo", ""}, {"reference", "off", ""}}, false},
      {{{"objective", "grpo", ""}}, false},
      {{{"objective", "grpo", ""}, {"reference", "on", ""}, {"rollout-share", "0.3", ""}}, true},
  };
  for (const Case& each : cases) {
    const auto plan = PlanOf(each.words, TransformerConfig{});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->reference, each.reference) << each.words.front().value;
  }
  const std::vector<TrainingWord> share = {{"rollout-share", "0.3", ""}};
  const auto plan = PlanOf(share, TransformerConfig{});
  ASSERT_TRUE(plan);
  EXPECT_EQ(Assumptions(share, TransformerConfig{}, *plan).back(),
            "--rollout-share 0.3 is ignored: the objective is not grpo");
}

TEST(TrainingWords, ReportsQuantisedWeightsOnce) {
  TransformerConfig packed;
  packed.quantisation = Quantisation::kGptq4;
  packed.dtype = Dtype::kFp16;
  std::vector<TrainingWord> words = {
      {"method", "lora", ""}, {"seq-len", "512", ""}, {"batch", "1", ""}};
  const std::vector<std::string> assumed = Assumptions(words, packed, *PlanOf(words, packed));
  ASSERT_EQ(assumed.size(), 1U);
  EXPECT_EQ(assumed.front(),
            "the blocks' weights stay in 4 bits, as stated in config.json (--weights)");
  words.push_back({"weights", "bf16", ""});
  EXPECT_TRUE(Assumptions(words, packed, *PlanOf(words, packed)).empty());
}

TEST(TrainingWords, DerivesTheLengthFromResolutionOrTokenizer) {
  TransformerConfig images;
  images.sees_images = images.one_length = true;
  images.token_pixels = 16;
  images.text_tokens = 333;
  images.positions = 4096 + 333;
  EXPECT_EQ(PlanOf({}, images)->sequence, 4096 + 333);
  const std::vector<TrainingWord> small = {{"resolution", "512", ""}};
  EXPECT_EQ(PlanOf(small, images)->sequence, 1024 + 333);

  const std::vector<TrainingWord> cut = {{"tokenizer-len", "512", "t: model_max_length"}};
  EXPECT_EQ(PlanOf(cut, TransformerConfig{})->sequence, 512);
  EXPECT_EQ(Assumptions(cut, TransformerConfig{}, *PlanOf(cut, TransformerConfig{})).front(),
            "sequence length unknown: 512 tokens assumed, the tokenizer's maximum (--seq-len)");
  EXPECT_TRUE(AssumesLength(cut, TransformerConfig{})) << "samples may be shorter";
  const std::vector<TrainingWord> long_cut = {{"tokenizer-len", "131072", ""}};
  EXPECT_EQ(PlanOf(long_cut, TransformerConfig{})->sequence, 2048) << "the default is shorter";
}

}  // namespace
}  // namespace carma::estimate
