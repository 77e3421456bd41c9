#include "estimate/transformer/plan_files.h"

#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

TEST(DeepSpeedFile, SaysStageAndWhatIsOffloaded) {
  TrainingPlan plan;
  const auto applied = ApplyDeepSpeed(
      R"({"zero_optimization":{"stage":3,"offload_optimizer":{"device":"cpu"},
          "offload_param":{"device":"none"}},"gradient_accumulation_steps":4,
          "train_micro_batch_size_per_gpu":"auto","bf16":{"enabled":"auto"}})",
      "ds.json", plan);
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(plan.data_parallel, DataParallel::kZero3);
  EXPECT_TRUE(plan.offload_optimizer && plan.accumulates && plan.deepspeed);
  EXPECT_FALSE(plan.offload_parameters);
}

TEST(DeepSpeedFile, LeavesToTheTrainerWhatIsAuto) {
  TrainingPlan plan;
  ASSERT_TRUE(ApplyDeepSpeed(R"({"gradient_accumulation_steps":"auto"})", "ds.json", plan));
  EXPECT_FALSE(plan.accumulates);
}

TEST(AdapterFile, SaysRankMatricesAndDropout) {
  TrainingPlan plan;
  const auto applied = ApplyAdapterConfig(
      R"({"peft_type":"LORA","r":64,"target_modules":["q_proj","down_proj"],"lora_dropout":0.05,
          "modules_to_save":["embed_tokens","lm_head"]})",
      "adapter_config.json", plan);
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(plan.method, Method::kLora);
  EXPECT_EQ(plan.lora_rank, 64);
  EXPECT_TRUE(plan.lora_targets.query && plan.lora_targets.down && !plan.lora_targets.value);
  EXPECT_TRUE(plan.lora_dropout && plan.trains_embeddings);
  ASSERT_TRUE(ApplyAdapterConfig(R"({"target_modules":"all-linear"})", "a.json", plan));
  EXPECT_TRUE(plan.lora_targets.up);
}

TEST(PlanFiles, AMistakeHasItsPlace) {
  struct Case {
    const char* deepspeed;
    const char* expected;
  };
  TrainingPlan plan;
  for (const Case& each :
       {Case{"{", "ds.json: not JSON"}, Case{"[]", "ds.json: /: expected an object"},
        Case{R"({"zero_optimization":{"stage":4}})", "ds.json: /zero_optimization/stage"},
        Case{R"({"zero_optimization":{"offload_param":3}})", "/zero_optimization/offload_param"}}) {
    const auto applied = ApplyDeepSpeed(each.deepspeed, "ds.json", plan);
    ASSERT_FALSE(applied) << each.deepspeed;
    EXPECT_NE(applied.error().message.find(each.expected), std::string::npos)
        << applied.error().message;
  }
  const auto other = ApplyAdapterConfig(R"({"peft_type":"IA3"})", "a.json", plan);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("a.json: /peft_type: expected LORA"), std::string::npos);
  EXPECT_FALSE(ApplyAdapterConfig(R"({"target_modules":["score"]})", "a.json", plan));
}

}  // namespace
}  // namespace carma::estimate
