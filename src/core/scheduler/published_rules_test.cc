#include "core/scheduler/published_rules.h"

#include <gtest/gtest.h>

namespace carma::core {
namespace {

TEST(AsPublished, KeepsTheMapperAndReplacesTheRules) {
  PolicyConfig base;
  base.mapper = "lug";
  base.floor_mib = 2'000;
  const auto thesis = AsPublished("thesis", base);
  ASSERT_TRUE(thesis);
  EXPECT_TRUE(Validate(*thesis));
  EXPECT_EQ(thesis->mapper, "lug");
  EXPECT_EQ(thesis->floor_mib, 2'000);
  EXPECT_EQ(thesis->pacing, Pacing::kThesis);
  EXPECT_EQ(thesis->recovery, RecoveryMode::kExclusive);
  EXPECT_TRUE(thesis->idle_first && thesis->recovery_blocks && thesis->every_failure_is_oom);
  EXPECT_FALSE(thesis->settle);
  EXPECT_FALSE(thesis->waive_on_idle);

  const auto v2 = AsPublished("v2", base);
  ASSERT_TRUE(v2);
  EXPECT_TRUE(Validate(*v2));
  EXPECT_EQ(v2->floor_mib, 2'512);
  EXPECT_EQ(v2->margin_mib, base.margin_mib + 512);
  EXPECT_TRUE(v2->settle);

  EXPECT_FALSE(AsPublished("v3", base));
}

TEST(AsPublished, RoundRobinHasNoConditions) {
  PolicyConfig base;
  base.mapper = "rr";
  const auto rules = AsPublished("v2", base);
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->sm_cap, std::nullopt);
  EXPECT_EQ(rules->floor_mib, 0);
  EXPECT_FALSE(rules->use_given_memory);
}

}  // namespace
}  // namespace carma::core
