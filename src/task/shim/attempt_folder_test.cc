#include "task/shim/attempt_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "task/shim/shim_fixture.h"

namespace carma::task {
namespace {

class AttemptFolderTest : public ShimLauncherTest {
 protected:
  std::string Attempts() const { return root_ + "/attempts"; }
  std::string Make(const std::string& name) const {
    std::filesystem::create_directories(Attempts() + "/" + name);
    return Attempts() + "/" + name;
  }
};

TEST_F(AttemptFolderTest, SweepsOnlyTheFoldersOfEndedAttempts) {
  launcher_->Start(Order("exec sleep 1000"));  // attempt 1 of task 5
  NextStarted();
  const std::string kept = Make("7/2"), old = Make("7/1"), unknown = Make("9/1");
  const std::string odd = Make("notes/1"), odder = Make("8/zero");
  std::filesystem::create_directory_symlink(odd, Attempts() + "/6");
  const auto wanted = [](core::TaskId id, int attempt) {
    return id == core::TaskId{7} && attempt == 2;
  };
  EXPECT_EQ(SweepAttempts(Attempts(), wanted), 2U);
  EXPECT_FALSE(base::Exists(old));
  EXPECT_FALSE(base::Exists(Attempts() + "/9"));
  for (const std::string& left : {kept, odd, odder, Dir()}) EXPECT_TRUE(base::Exists(left)) << left;
  launcher_->Stop(kTask, 1);
  NextExited();
  EXPECT_EQ(SweepAttempts(Attempts(), wanted), 1U) << "its shim has exited";
  EXPECT_EQ(SweepAttempts(root_ + "/none", wanted), 0U);
}

TEST_F(AttemptFolderTest, ReadsTheGraceFromTheOrder) {
  EXPECT_FALSE(KillGraceOf(Dir()));
  LaunchOrder order = Order("true");
  order.kill_grace = base::Duration(1'234);
  Run(order);
  EXPECT_EQ(KillGraceOf(Dir()), base::Duration(1'234));
}

TEST_F(AttemptFolderTest, ATaskWasAskedOnlyOnceTheSignalWasSent) {
  const std::string dir = Make("5/1");
  const base::Time by = base::FromMs(1'700'000'000'000);
  ASSERT_TRUE(StateDeadline(dir, by, false));
  EXPECT_FALSE(WasAsked(dir, by)) << "carmad may have been killed before it sent the signal";
  ASSERT_TRUE(StateDeadline(dir, by, true));
  EXPECT_TRUE(WasAsked(dir, by + base::Duration(3))) << "carmad has restarted";
  EXPECT_FALSE(WasAsked(dir, by - std::chrono::hours(1)));
  ASSERT_TRUE(StateDeadline(dir, std::nullopt, false));
  EXPECT_FALSE(WasAsked(dir, by)) << "it could stay in between";
}

TEST_F(AttemptFolderTest, AReaderOfADeadlineSeesTheOldOrTheNewOne) {
  const std::string dir = Make("5/1");
  ASSERT_TRUE(StateDeadline(dir, base::FromMs(1'700'000'000'000), false));
  const base::UniqueFd file(::open((dir + "/" + kDeadlineFile).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(StateDeadline(dir, std::nullopt, false));
  EXPECT_EQ(base::ReadAll(file.get(), 100), "1700000000000") << "opened before the change";
}

}  // namespace
}  // namespace carma::task
