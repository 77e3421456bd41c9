#include "daemon/loop/boot_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/process_id.h"

namespace carma::daemon {
namespace {

TEST(BootMark, ReportsANewStartOfTheMachineOnce) {
  std::string dir = ::testing::TempDir() + "carma-boot-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  EXPECT_FALSE(MarkBoot(dir, "first")) << "there is no earlier mark";
  EXPECT_FALSE(MarkBoot(dir, "first"));
  EXPECT_FALSE(MarkBoot(dir, "")) << "the kernel reports no boot";
  EXPECT_TRUE(MarkBoot(dir, "second"));
  EXPECT_FALSE(MarkBoot(dir, "second"));
  std::filesystem::remove_all(dir);
}

TEST(MachineStart, ChangesWithTheServiceManager) {
  const std::string system = MachineStart();
  EXPECT_THAT(system, ::testing::HasSubstr(base::BootId()));
  EXPECT_EQ(MachineStart(), system);
  ASSERT_EQ(::setenv("MANAGERPID", std::to_string(::getpid()).c_str(), 1), 0);
  const std::string of_user = MachineStart();
  EXPECT_NE(of_user, system);
  EXPECT_THAT(of_user, ::testing::HasSubstr(base::BootId()));
  // A service manager that has exited is ignored.
  ASSERT_EQ(::setenv("MANAGERPID", "4194305", 1), 0);
  EXPECT_EQ(MachineStart(), base::BootId());
  ::unsetenv("MANAGERPID");
}

}  // namespace
}  // namespace carma::daemon
