#include "daemon/attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace carma::daemon {
namespace {

constexpr core::TaskId kTask{7};
constexpr pid_t kNobodys = 1'000'000'007;  // above every pid that Linux gives

TEST(Attribution, AProcessBelongsToTheTaskWhoseProcessesItDescendsFrom) {
  Attribution attribution;
  attribution.Add(kTask, base::SelfProcess(), "");
  EXPECT_EQ(attribution.Find(::getpid()), kTask);
  EXPECT_EQ(attribution.Find(::getppid()), kTask) << "the shim is the task's too";
  EXPECT_EQ(attribution.Tasks(), std::vector<core::TaskId>{kTask});
  attribution.Remove(kTask);
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
  EXPECT_TRUE(attribution.Tasks().empty());
}

TEST(Attribution, AReusedPidIsNotTakenForTheTasksProcess) {
  base::ProcessId earlier = base::SelfProcess();
  --earlier.start_ticks;  // this pid's owner of a moment ago
  Attribution attribution;
  attribution.Add(kTask, earlier, "");
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
}

TEST(Attribution, ARememberedAnswerHoldsForThatProcessOnly) {
  Attribution attribution;
  EXPECT_EQ(attribution.Find(kNobodys), std::nullopt);
  EXPECT_EQ(attribution.Describe(kNobodys), ProcessFace{}) << "hidden or gone: not known";
  attribution.Retain({});
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
  attribution.Add(kTask, base::SelfProcess(), "");
  EXPECT_EQ(attribution.Find(::getpid()), kTask);
}

TEST(Attribution, AForeignProcessHasAUserAndACommand) {
  Attribution attribution;
  const passwd* entry = ::getpwuid(::getuid());
  const std::string name = entry != nullptr ? entry->pw_name : std::to_string(::getuid());
  EXPECT_EQ(attribution.Describe(::getpid()).user, std::to_string(::getuid()))
      << "nobody was asked who may keep us waiting";
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (attribution.Describe(::getpid()).user != name &&
         std::chrono::steady_clock::now() < patience)
    std::this_thread::yield();
  const ProcessFace face = attribution.Describe(::getpid());
  EXPECT_EQ(face.user, name);
  EXPECT_THAT(face.command, ::testing::HasSubstr(program_invocation_short_name));
  EXPECT_LE(face.command.size(), 120U + 3U) << "shortened";
}

}  // namespace
}  // namespace carma::daemon
