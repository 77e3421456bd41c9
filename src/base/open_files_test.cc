#include "base/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace carma::base {
namespace {

TEST(RaiseOpenFiles, RaisesTheLimitWithinTheHardLimitAndNeverLowersIt) {
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit low{.rlim_cur = 100, .rlim_max = usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(RaiseOpenFiles(200), 200u);
  EXPECT_EQ(RaiseOpenFiles(50), 200u) << "lowered";
  EXPECT_EQ(RaiseOpenFiles(usual.rlim_max), usual.rlim_max);
  rlimit now{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, usual.rlim_max);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
}

}  // namespace
}  // namespace carma::base
