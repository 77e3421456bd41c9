#include "task/describe/option_values.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace carma::task {
namespace {

TEST(ParseShare, ParsesPercentAndFractions) {
  EXPECT_EQ(ParseShare("30%"), 0.3);
  EXPECT_EQ(ParseShare("0.25"), 0.25);
  EXPECT_EQ(ParseShare("100%"), 1);
  EXPECT_EQ(ParseShare("1"), 1);
  EXPECT_FALSE(ParseShare("0.5%")) << "finer than MPS can distinguish";
  EXPECT_FALSE(ParseShare("%"));
  EXPECT_FALSE(ParseShare("-30%"));
}

TEST(ParseGres, ParsesSlurmsForms) {
  EXPECT_EQ(ParseGres("gpu")->gpus, 1);
  EXPECT_EQ(ParseGres("gpu:3")->gpus, 3);
  EXPECT_EQ(ParseGres("gpu:a100")->gpus, 1);
  EXPECT_EQ(ParseGres("gpu:a100")->type, "a100");
  EXPECT_EQ(ParseGres("gres:gpu:a100:4")->gpus, 4);
  EXPECT_EQ(ParseGres("gres:gpu:a100:4")->type, "a100");
  EXPECT_EQ(ParseGres("gpu:4")->type, std::nullopt);
  EXPECT_FALSE(ParseGpus("a100:2,v100:1")) << "of one type";
  EXPECT_EQ(ParseGres("shard:4")->gpus, 1);
  EXPECT_EQ(ParseGres("shard:4")->remarks.size(), 1U);
  EXPECT_EQ(ParseGres("none")->gpus, 0);
  EXPECT_TRUE(ParseGres("gpu:2,lscratch:100")->counted);
  EXPECT_FALSE(ParseGres("lscratch:100")->counted);
  EXPECT_EQ(ParseGres("gpu:0")->gpus, 0);
  EXPECT_FALSE(ParseGres("gpu:-1"));
  EXPECT_FALSE(ParseGres(""));
}

TEST(ParseConstraint, ExtractsGpuTypes) {
  EXPECT_EQ(ParseConstraint("a100").gpu_type, "a100");
  EXPECT_EQ(ParseConstraint("gpu_v100_32gb").gpu_type, "gpu_v100_32gb");
  EXPECT_EQ(ParseConstraint("rtx2080ti").gpu_type, "rtx2080ti");
  const Constraint both = ParseConstraint("ib&a100");
  EXPECT_EQ(both.gpu_type, "a100");
  EXPECT_EQ(both.others, std::vector<std::string>{"ib"});
  EXPECT_EQ(ParseConstraint("a100|v100").gpu_type, std::nullopt) << "either would do";
  EXPECT_EQ(ParseConstraint("a12").gpu_type, std::nullopt) << "may be a rack";
  EXPECT_EQ(ParseConstraint("skylake").gpu_type, std::nullopt);
}

class ParseBeginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(ParseBeginTest, ParsesEveryForm) {
  const base::Time now = base::FromMs(1'772'373'600'000);  // 2026-03-01T14:00:00Z
  const std::vector<std::pair<const char*, std::int64_t>> cases{
      // expected: number of seconds after now
      {"now", 0},
      {"now+90", 90},
      {"now + 2 minutes", -1},
      {"now+2minutes", 120},
      {"now+1hour", 3600},
      {"now+1 week", 604800},
      {"now+1h30m", 5400},
      {"+30m", 1800},
      {"+1h30m", 5400},
      {"+5", 300},
      {"14:05", 300},
      {"13:59", 86400 - 60},
      {"14:00:30", 30},
      {"noon", 22 * 3600},
      {"midnight", 10 * 3600},
      {"tomorrow", 10 * 3600},
      {"2026-03-02", 10 * 3600},
      {"2026-03-01T14:05", 300},
      {"2026-03-01 14:05:01", 301},
      {"2026-03-01T14:05:00Z", 300},
      {"", -1},
      {"24:00", -1},
      {"2026-13-01", -1},
      {"2026-02-29", -1},
      {"2024-02-29", -63'208'800},
      {"2026-03-01T", -1},
      {"9999-01-01", -1},
      {"now+99999999999999", -1},
      {"now-1hour", -1},
  };
  for (const auto& [text, after_s] : cases) {
    const auto begin = ParseBegin(text, now);
    if (after_s == -1) {
      EXPECT_FALSE(begin) << text;
    } else {
      ASSERT_TRUE(begin) << text << begin.error().message;
      EXPECT_EQ((*begin - now).count(), after_s * 1000) << text;
    }
  }
}

}  // namespace
}  // namespace carma::task
