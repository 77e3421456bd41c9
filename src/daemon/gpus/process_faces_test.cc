#include "daemon/gpus/process_faces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/user.h"

namespace carma::daemon {
namespace {

Stranger StrangerOf(pid_t pid) {
  const SeenProcess seen = SeeProcess(pid);
  Stranger stranger;
  stranger.process = seen.line.empty() ? base::ProcessId{pid, 0} : seen.line.front();
  stranger.face = seen.face;
  return stranger;
}

GpuUse UsedBy(std::vector<Stranger> strangers) {
  GpuUse use;
  use.strangers = std::move(strangers);
  return use;
}

class ProcessFacesTest : public ::testing::Test {
 protected:
  // Calls Follow() until all of these processes are shown with the user name of this process.
  bool AllNamed(const std::vector<Stranger>& strangers) {
    const auto named = [&](const Stranger& stranger) {
      return faces_.Of(stranger).user == base::UserName(::getuid());
    };
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!std::ranges::all_of(strangers, named) && std::chrono::steady_clock::now() < patience) {
      faces_.Follow({UsedBy(strangers)});
      loop_->restart();
      loop_->run_one_for(std::chrono::milliseconds(50));
    }
    return std::ranges::all_of(strangers, named);
  }

  std::shared_ptr<boost::asio::io_context> loop_ = std::make_shared<boost::asio::io_context>(1);
  ProcessFaces faces_{loop_};
};

TEST(SeenProcesses, AnUnchangedProcessIsNotReadAgain) {
  SeenProcess before = SeeProcess(::getpid());
  ASSERT_GT(before.line.size(), 1U);
  ASSERT_TRUE(before.whole);
  before.cgroup = "/earlier";
  EXPECT_EQ(SeeProcess(::getpid(), &before).cgroup, "/earlier");
  SeenProcess other = before;
  ++other.line.front().start_ticks;
  EXPECT_NE(SeeProcess(::getpid(), &other).cgroup, "/earlier") << "another process with this pid";
  other = before;
  ++other.line[1].pid;
  EXPECT_NE(SeeProcess(::getpid(), &other).cgroup, "/earlier") << "adopted by another parent";
  other = before;
  other.whole = false;
  EXPECT_NE(SeeProcess(::getpid(), &other).cgroup, "/earlier") << "something could not be read";
  other = before;
  other.face.command = "sh";
  EXPECT_NE(SeeProcess(::getpid(), &other).cgroup, "/earlier") << "it now runs another program";
}

TEST_F(ProcessFacesTest, AProcessHasAUserAndACommand) {
  const Stranger self = StrangerOf(::getpid());
  EXPECT_EQ(faces_.Of(self).user, std::to_string(::getuid())) << "no slow source was queried yet";
  ASSERT_TRUE(AllNamed({self}));
  const ProcessFace face = faces_.Of(self);
  EXPECT_THAT(face.command, ::testing::HasSubstr(program_invocation_short_name));
  EXPECT_LE(face.command.size(), 120U + 3U) << "the command is shortened";
  Stranger later = self;
  ++later.process.start_ticks;
  EXPECT_EQ(faces_.Of(later), self.face) << "another process with the same pid";
  faces_.Follow({});
  EXPECT_EQ(faces_.Of(self), self.face) << "it was forgotten";
}

TEST_F(ProcessFacesTest, ProcessesBeyondTheLimitAreReadLater) {
  std::vector<Stranger> children;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::pause());
    children.push_back(StrangerOf(child));
  }
  EXPECT_TRUE(AllNamed(children));
  for (const Stranger& child : children) {
    ::kill(child.process.pid, SIGKILL);
    ::waitpid(child.process.pid, nullptr, 0);
  }
}

TEST_F(ProcessFacesTest, AProcessThatCannotBeSeenHasNoFace) {
  const Stranger nobody = StrangerOf(1'000'000'007);  // larger than any Linux pid
  faces_.Follow({UsedBy({nobody})});
  EXPECT_EQ(faces_.Of(nobody), ProcessFace{});
}

}  // namespace
}  // namespace carma::daemon
