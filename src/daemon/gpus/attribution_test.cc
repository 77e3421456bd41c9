#include "daemon/gpus/attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>

#include "base/user.h"

namespace carma::daemon {
namespace {

constexpr core::TaskId kTask{7};
constexpr pid_t kNobodys = 1'000'000'007;  // larger than any pid of Linux

TEST(Attribution, AProcessBelongsToTheTaskWhoseProcessesItDescendsFrom) {
  Attribution attribution;
  attribution.Add(kTask, base::SelfProcess(), "");
  EXPECT_EQ(attribution.Find(::getpid()), kTask);
  EXPECT_EQ(attribution.Find(::getppid()), kTask) << "the shim belongs to the task too";
  EXPECT_EQ(attribution.Tasks(), std::vector<core::TaskId>{kTask});
  attribution.Remove(kTask);
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
  EXPECT_TRUE(attribution.Tasks().empty());
}

TEST(Attribution, ATaskMayHaveSeveralRoots) {
  Attribution attribution;
  const base::ProcessId elsewhere{kNobodys, 1};
  attribution.AddRoot(kTask, base::SelfProcess());
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt) << "the task is unknown";
  attribution.Add(kTask, elsewhere, "");
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
  attribution.AddRoot(kTask, base::SelfProcess());
  EXPECT_EQ(attribution.Find(::getpid()), kTask) << "although it was foreign before";
  EXPECT_EQ(attribution.Find(::getppid()), std::nullopt) << "only processes below a root";
  attribution.Remove(kTask);
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
}

TEST(Attribution, AReusedPidDoesNotBelongToTheTask) {
  base::ProcessId earlier = base::SelfProcess();
  --earlier.start_ticks;  // an earlier process with the same pid
  Attribution attribution;
  attribution.Add(kTask, earlier, "");
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
}

TEST(Attribution, ACachedAnswerIsValidOnlyForTheSameProcess) {
  Attribution attribution;
  EXPECT_EQ(attribution.Find(kNobodys), std::nullopt);
  EXPECT_EQ(attribution.Describe(kNobodys), ProcessFace{}) << "hidden or gone: not known";
  attribution.Retain({});
  EXPECT_EQ(attribution.Find(::getpid()), std::nullopt);
  attribution.Add(kTask, base::SelfProcess(), "");
  EXPECT_EQ(attribution.Find(::getpid()), kTask);
}

TEST(Attribution, RequestsBeyondTheLimitAreMadeLater) {
  const auto loop = std::make_shared<boost::asio::io_context>(1);
  Attribution attribution(loop);
  std::vector<pid_t> children(100);
  for (pid_t& child : children) {
    child = ::fork();
    if (child == 0) ::_exit(::pause());
  }
  const auto named = [&](pid_t child) {
    return attribution.Describe(child).user == base::UserName(::getuid());
  };
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!std::ranges::all_of(children, named) && std::chrono::steady_clock::now() < patience) {
    loop->restart();
    loop->poll();
  }
  EXPECT_TRUE(std::ranges::all_of(children, named));
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST(Attribution, AForeignProcessHasAUserAndACommand) {
  const auto loop = std::make_shared<boost::asio::io_context>(1);
  Attribution attribution(loop);
  const passwd* entry = ::getpwuid(::getuid());
  const std::string name = entry != nullptr ? entry->pw_name : std::to_string(::getuid());
  EXPECT_EQ(attribution.Describe(::getpid()).user, std::to_string(::getuid()))
      << "no slow source was asked";
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (attribution.Describe(::getpid()).user != name &&
         std::chrono::steady_clock::now() < patience) {
    loop->restart();
    loop->poll();
  }
  const ProcessFace face = attribution.Describe(::getpid());
  EXPECT_EQ(face.user, name);
  EXPECT_THAT(face.command, ::testing::HasSubstr(program_invocation_short_name));
  EXPECT_LE(face.command.size(), 120U + 3U) << "shortened";
}

}  // namespace
}  // namespace carma::daemon
