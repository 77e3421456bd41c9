#include "estimate/training_plan.h"

#include <gtest/gtest.h>

namespace carma::estimate {
namespace {

TEST(LoraTargetsTest, AcceptsTheLibrariesNames) {
  const auto some = ParseLoraTargets("q_proj,V");
  ASSERT_TRUE(some);
  EXPECT_TRUE(some->query && some->value && !some->key && !some->down);
  const auto qwen = ParseLoraTargets("c_attn,c_proj,w1,w2");
  ASSERT_TRUE(qwen);
  EXPECT_TRUE(qwen->key && qwen->output && qwen->down && qwen->gate && qwen->up);
  const auto glm = ParseLoraTargets("query_key_value,dense,dense_h_to_4h,dense_4h_to_h");
  const auto peft = ParseLoraTargets("all-linear");
  ASSERT_TRUE(glm && peft);
  for (const LoraTargets& all : {*glm, *peft})
    EXPECT_TRUE(all.query && all.value && all.output && all.gate && all.down);
  const auto attention = ParseLoraTargets("attention");
  ASSERT_TRUE(attention);
  EXPECT_TRUE(attention->output && !attention->up);
}

TEST(LoraTargetsTest, NamesUnknownTargets) {
  for (const char* words : {"q,head", "", "q,,v"}) {
    const auto targets = ParseLoraTargets(words);
    ASSERT_FALSE(targets) << words;
    EXPECT_NE(targets.error().message.find("expected one or more of q, k"), std::string::npos);
  }
}

}  // namespace
}  // namespace carma::estimate
