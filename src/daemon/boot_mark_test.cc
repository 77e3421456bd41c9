#include "daemon/boot_mark.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace carma::daemon {
namespace {

TEST(BootMark, ANewStartOfTheMachineIsToldOnce) {
  std::string dir = ::testing::TempDir() + "carma-boot-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  EXPECT_FALSE(MarkBoot(dir, "first")) << "nothing is known of before";
  EXPECT_FALSE(MarkBoot(dir, "first"));
  EXPECT_FALSE(MarkBoot(dir, "")) << "the kernel does not tell";
  EXPECT_TRUE(MarkBoot(dir, "second"));
  EXPECT_FALSE(MarkBoot(dir, "second"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace carma::daemon
