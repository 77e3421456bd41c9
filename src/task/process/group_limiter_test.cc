#include "task/process/group_limiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"

namespace carma::task {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(GroupLimiter, PassesTheGroupAndTheLimitsAfterTheFirstWords) {
  const std::string said = ::testing::TempDir() + "/limiter-said";
  const Words words = LimitWords({{"GPU-1", 100, 200}, {"GPU-2", 0, 0}});
  ASSERT_TRUE(LimitGpuMemory({"/bin/sh", "-c", "echo \"$@\" > " + said, "sh"}, "/g", words));
  EXPECT_EQ(base::ReadFile(said, 1'000), "/g GPU-1 100 200 GPU-2 0 0\n");
  EXPECT_EQ(HardLimitWords(words), (Words{"GPU-1", "0", "200", "GPU-2", "0", "0"}));
  EXPECT_EQ(NoLimitWords(words), (Words{"GPU-1", "0", "0", "GPU-2", "0", "0"}));
}

TEST(GroupLimiter, ReportsErrors) {
  const auto failed = [](const Words& limiter, std::chrono::milliseconds patience) {
    const auto limited = LimitGpuMemory(limiter, "/g", {}, patience);
    return limited ? "" : limited.error().message;
  };
  EXPECT_EQ(failed({"/bin/sh", "-c", "echo 'Not Found (NVML 6)' >&2; exit 1"}, kLimiterPatience),
            "Not Found (NVML 6)");
  EXPECT_EQ(failed({"/bin/false"}, kLimiterPatience), "the program that sets the limits failed");
  EXPECT_THAT(failed({"/no/such/program"}, kLimiterPatience), HasSubstr("No such file"));
  EXPECT_EQ(failed({"/bin/sh", "-c", "exec sleep 1000"}, std::chrono::milliseconds(20)),
            "the driver does not respond");
}

}  // namespace
}  // namespace carma::task
