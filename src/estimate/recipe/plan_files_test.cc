#include "estimate/recipe/plan_files.h"

#include <gtest/gtest.h>

#include "estimate/training_words.h"

namespace carma::estimate {
namespace {

TrainingPlan Plan(const Result<TrainingWords>& words) {
  EXPECT_TRUE(words) << words.error().message;
  const auto plan = PlanOf(words.value_or(TrainingWords{}), TransformerConfig{});
  EXPECT_TRUE(plan) << plan.error().message;
  return plan.value_or(TrainingPlan{});
}

TEST(DeepSpeedFile, ReadsStageAndOffloading) {
  const auto words = ReadDeepSpeed(
      R"({"zero_optimization":{"stage":3,"offload_optimizer":{"device":"cpu"},
          "offload_param":{"device":"none"}},"gradient_accumulation_steps":4,
          "train_micro_batch_size_per_gpu":"auto","bf16":{"enabled":"auto"}})",
      "ds.json");
  const TrainingPlan plan = Plan(words);
  EXPECT_EQ(plan.data_parallel, DataParallel::kZero3);
  EXPECT_TRUE(plan.offload_optimizer && plan.accumulates && plan.deepspeed);
  EXPECT_FALSE(plan.offload_parameters);
  EXPECT_EQ(plan.batch, 1);
  EXPECT_EQ(words->back().from, "ds.json: zero_optimization");
}

TEST(DeepSpeedFile, LeavesAutoValuesToTheTrainer) {
  EXPECT_FALSE(Plan(ReadDeepSpeed(R"({"gradient_accumulation_steps":"auto"})", "d")).accumulates);
}

TEST(DeepSpeedFile, ReadsSamplesAndPrecision) {
  const TrainingPlan plan = Plan(
      ReadDeepSpeed(R"({"train_micro_batch_size_per_gpu":4,"fp16":{"enabled":true}})", "ds.json"));
  EXPECT_EQ(plan.batch, 4);
  EXPECT_EQ(plan.weights, Dtype::kFp16);
}

TEST(AdapterFile, ReadsRankMatricesAndDropout) {
  const TrainingPlan plan = Plan(ReadAdapterConfig(
      R"({"peft_type":"LORA","r":64,"target_modules":["q_proj","down_proj"],"lora_dropout":0.05,
          "modules_to_save":["embed_tokens","lm_head"]})",
      "adapter_config.json"));
  EXPECT_EQ(plan.method, Method::kLora);
  EXPECT_EQ(plan.lora_rank, 64);
  EXPECT_TRUE(plan.lora_targets.query && plan.lora_targets.down && !plan.lora_targets.value);
  EXPECT_TRUE(plan.lora_dropout && plan.trains_embeddings);
  EXPECT_TRUE(
      Plan(ReadAdapterConfig(R"({"target_modules":"all-linear"})", "a.json")).lora_targets.up);
}

TEST(PlanFiles, ReportsTheLocationOfAMistake) {
  struct Case {
    const char* deepspeed;
    const char* expected;
  };
  for (const Case& each :
       {Case{"{", "ds.json: not JSON"}, Case{"[]", "ds.json: /: expected an object"},
        Case{R"({"zero_optimization":{"stage":4}})", "ds.json: /zero_optimization/stage"},
        Case{R"({"zero_optimization":{"offload_param":3}})", "/zero_optimization/offload_param"}}) {
    const auto words = ReadDeepSpeed(each.deepspeed, "ds.json");
    ASSERT_FALSE(words) << each.deepspeed;
    EXPECT_NE(words.error().message.find(each.expected), std::string::npos)
        << words.error().message;
  }
  const auto other = ReadAdapterConfig(R"({"peft_type":"IA3"})", "a.json");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("a.json: /peft_type: expected LORA"), std::string::npos);
  EXPECT_FALSE(ReadAdapterConfig(R"({"target_modules":["score"]})", "a.json"));
}

TEST(WeightIndex, ReadsTheParametersOfTheWholeModel) {
  const char* const text = R"({"metadata":{"total_size":14483464192},"weight_map":{}})";
  TransformerConfig config;
  EXPECT_EQ(Plan(ReadWeightIndex(text, "index.json", config)).parameters, 7'241'732'096);
  config.dtype = Dtype::kFp32;
  EXPECT_EQ(Plan(ReadWeightIndex(text, "index.json", config)).parameters, 3'620'866'048);
  config.quantisation = Quantisation::kGptq4;
  EXPECT_TRUE(ReadWeightIndex(text, "index.json", config)->empty()) << "packed bits hide the count";
  EXPECT_FALSE(ReadWeightIndex("{", "index.json", TransformerConfig{}));
}

TEST(PlanFiles, ReadsTheTokenizersMaximum) {
  const auto cut = ReadTokenizer(R"({"model_max_length":512})", "tokenizer_config.json");
  ASSERT_TRUE(cut);
  ASSERT_EQ(cut->size(), 1u);
  EXPECT_EQ(cut->front().value, "512");
  EXPECT_EQ(cut->front().from, "tokenizer_config.json: model_max_length");
  EXPECT_TRUE(
      ReadTokenizer(R"({"model_max_length":1000000000000000019884624838656})", "t")->empty());
  EXPECT_TRUE(ReadTokenizer("{}", "t")->empty());
  EXPECT_FALSE(ReadTokenizer("{", "t"));
}

TEST(PlanFiles, ReadsTheTrainedAndFrozenPartsOfAPipeline) {
  const std::string index =
      R"({"_class_name":"StableDiffusionPipeline","unet":["diffusers","UNet2DConditionModel"],
          "vae":["diffusers","AutoencoderKL"],"scheduler":["diffusers","PNDMScheduler"],
          "text_encoder":["transformers","CLIPTextModel"],"safety_checker":[null,null]})";
  EXPECT_TRUE(IsPipeline(index));
  EXPECT_FALSE(IsPipeline(R"({"_class_name":"UNet2DConditionModel"})"));
  const auto read = [](const std::string& path) -> Result<std::string> {
    if (path == "/sd/vae/config.json")
      return std::string(R"({"block_out_channels":[128,256,512,512]})");
    if (path == "/sd/text_encoder/config.json")
      return std::string(
          R"({"model_type":"clip_text_model","num_hidden_layers":12,"hidden_size":768,
              "num_attention_heads":12,"intermediate_size":3072,"vocab_size":49408,
              "max_position_embeddings":77})");
    return NotFound(path);
  };
  const auto found = ReadPipeline(index, "/sd/model_index.json", read);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->config, "/sd/unet/config.json");
  ASSERT_EQ(found->words.size(), 2u);
  EXPECT_EQ(found->words[0].name, "encodes-images");
  EXPECT_NEAR(std::stod(found->words[1].value), 123e6 + 84e6, 6e6);
  EXPECT_FALSE(ReadPipeline(R"({"_class_name":"XPipeline"})", "/m.json", read));
}

}  // namespace
}  // namespace carma::estimate
