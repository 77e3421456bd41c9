#include "lab/verbs/profile/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>

#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

class Keeper : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/carma-keeper-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<KeptProgram> Start(const std::string& script) const {
    return KeptProgram::Start({.command = {"/bin/sh", "-c", script},
                               .environment = {"PATH=/usr/bin:/bin", "NAME=value"},
                               .workdir = folder_,
                               .output = folder_ + "/output"});
  }
  static void AwaitEnd(KeptProgram& program) {
    while (!program.ended()) {
      pollfd entry{program.fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "the program does not end";
      program.Listen();
    }
  }
  std::string Read(const std::string& name) const {
    return base::ReadFile(folder_ + "/" + name, 1 << 20).value_or("");
  }

  std::string folder_;
};

TEST_F(Keeper, ReportsWhenAndHowItsProgramEnded) {
  auto program = Start("echo $NAME in $PWD; exit 3");
  ASSERT_TRUE(program) << program.error().message;
  AwaitEnd(*program);
  const auto outcome = program->Outcome();
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->code, 3);
  EXPECT_GT(outcome->ended_ns, outcome->began_ns);
  EXPECT_EQ(Read("output"), "value in " + folder_ + "\n");
  auto killed = Start("kill -9 $$");
  ASSERT_TRUE(killed);
  AwaitEnd(*killed);
  EXPECT_EQ(killed->Outcome()->code, 128 + SIGKILL);
  EXPECT_EQ(Read("output"), "") << "made anew";
}

TEST_F(Keeper, ReportsWhyAProgramCannotBeRun) {
  auto program = KeptProgram::Start({.command = {"/no/such/program"},
                                     .environment = {},
                                     .workdir = "",
                                     .output = folder_ + "/output"});
  ASSERT_TRUE(program);
  AwaitEnd(*program);
  const auto outcome = program->Outcome();
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("No such file"));
}

TEST_F(Keeper, EndsDetachedProcesses) {
  // The detached process leaves its session, is adopted when its parent exits, and ignores SIGTERM,
  // so it must be killed.
  auto program = Start(
      "setsid sh -c 'trap \"\" TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done' "
      "& "
      "while [ ! -e pid ]; do :; done; exit 0");
  ASSERT_TRUE(program);
  AwaitEnd(*program);
  EXPECT_EQ(program->Outcome()->code, 0);
  const auto pid = base::ParseInt(base::Trim(Read("pid")));
  ASSERT_TRUE(pid);
  const auto stat = base::ReadProcessStat(static_cast<pid_t>(*pid));
  EXPECT_TRUE(!stat || stat->state == 'Z');
}

TEST_F(Keeper, StopsItsProgramOnRequest) {
  auto program = Start("while :; do sleep 1000; done");
  ASSERT_TRUE(program);
  program->Stop();
  AwaitEnd(*program);
  const auto outcome = program->Outcome();
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->code, 128 + SIGTERM);
}

TEST_F(Keeper, ReportsWhyMpsIsNotAvailable) {
  const auto mps = KeptMps::Start({.shim = base::ExecutableDir() + "/carma-shim",
                                   .program = "/no/such/control",
                                   .gpu = "GPU-8f3a91c2-0000-1111-2222-333344445555",
                                   .simgpu_state = ""});
  ASSERT_FALSE(mps);
  EXPECT_THAT(mps.error().message, HasSubstr("/no/such/control"));
}

}  // namespace
}  // namespace carma::cli
