#include "profile/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::profile {
namespace {

using ::testing::HasSubstr;

WorkloadProfile Full() {
  return {.workload = "resnet50, batch 32",
          .gpu_type = "NVIDIA A100-SXM4-40GB",
          .signature = "1000-abcdefghijklmnopqrstuvwxyzabcdef",
          .sm_active = 0.62,
          .load_s = 14.25,
          .time_s = 300.125,
          .iterations = 1000,
          .memory_mib = 4790,
          .sensitivity = 2.0 / 3,
          .pressure = 0.1,
          .runs = 3,
          .time_spread = 0.01,
          .meetings = 12,
          .fit_error = 0.02};
}

TEST(Profiles, RoundTripThroughCsv) {
  const std::vector<WorkloadProfile> profiles{
      Full(), {.workload = "alone", .gpu_type = "T4", .time_s = 1, .runs = 1}};
  const auto again = ParseProfiles(ProfilesCsv(profiles), "profiles.csv");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, profiles);
}

TEST(Profiles, HaveAnIterationTimeIfTheNumberIsKnown) {
  WorkloadProfile profile = Full();
  EXPECT_DOUBLE_EQ(IterationS(profile).value_or(0), 0.300125);
  profile.iterations.reset();
  EXPECT_FALSE(IterationS(profile));
}

TEST(Profiles, AreRefusedIfImpossible) {
  struct Case {
    const char* name;
    std::string row;
    const char* complaint;
  };
  const Case cases[] = {
      {"no name", ",T4,,,,0,1,,,1,0,0,,\n", "profiles.csv:2: column 'workload'"},
      {"activity above 1", "a,T4,1.5,,,0,1,,,1,0,0,,\n", "sm_active"},
      {"no time", "a,T4,,,,0,,,,1,0,0,,\n", "time_s"},
      {"only one of two parameters", "a,T4,,0.5,,0,1,,,1,0,0,,\n", "or neither"},
      {"a duplicate", "a,T4,,,,0,1,,,1,0,0,,\na,T4,,,,0,1,,,1,0,0,,\n", "profiles.csv:3"},
      {"a terminal escape sequence", "a\x1b[2J,T4,,,,0,1,,,1,0,0,,\n", "printable"},
  };
  const std::string header = ProfilesCsv({});
  for (const Case& each : cases) {
    const auto read = ParseProfiles(header + each.row, "profiles.csv");
    ASSERT_FALSE(read) << each.name;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid) << each.name;
    EXPECT_THAT(read.error().message, HasSubstr(each.complaint)) << each.name;
  }
  EXPECT_FALSE(ParseProfiles("workload\na\n", "profiles.csv"));
}

}  // namespace
}  // namespace carma::profile
