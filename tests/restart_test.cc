// Tests that no task is lost or started twice when the daemon is killed and restarted.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

class Restart : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  std::uint64_t Submit(const Gated& gated, const std::string& then, Words options = {}) const {
    return gated.Submit(site, then, std::move(options));
  }
  // The shim of a running task.
  static pid_t ShimOf(const api::TaskView& task) {
    const auto stat = base::ReadProcessStat(static_cast<pid_t>(task.pid.value_or(0)));
    return stat ? stat->parent : 0;
  }

  Site site;
};

TEST_F(Restart, QueuedAndRunningTasksAreWhereTheyWereAfterAKill) {
  Gated running(site, "running");
  const std::uint64_t runs = Submit(running, "exit 5");
  const std::uint64_t held = site.Submit({"--hold", "--priority", "3", "--", "/bin/true"});
  const std::uint64_t waits = site.Submit(
      {"--dependency", "afternotok:" + std::to_string(runs), "--", "/bin/echo", "afterwards"});
  ASSERT_EQ(running.Hear(), "1");
  const api::TaskView before = site.AwaitState(runs, "running");
  site.Restart(SIGKILL);
  const api::TaskView after = site.AwaitState(runs, "running");
  EXPECT_EQ(after.pid, before.pid);
  EXPECT_EQ(after.attempt, 1);
  EXPECT_EQ(after.gpu_uuids, before.gpu_uuids);
  site.ExpectWaits(held, "Held");
  EXPECT_EQ(site.Task(held).priority, 3);
  site.ExpectWaits(waits, "Dependency");
  running.Open();
  EXPECT_EQ(site.Await(runs).exit_code, 5);
  EXPECT_EQ(site.Await(waits).state, "succeeded");
  EXPECT_EQ(site.Task(held).state, "queued");
}

TEST_F(Restart, ARemovedSocketIsMadeAgain) {
  ASSERT_EQ(::unlink(site.socket().c_str()), 0);
  EXPECT_TRUE(
      Eventually([this] { return api::Client(site.socket()).Get("/v1/status").has_value(); }));
}

TEST_F(Restart, ATaskThatEndsWhileNoDaemonLivesKeepsItsExitCode) {
  Gated first(site, "first"), second(site, "second");
  const std::uint64_t fails = Submit(first, "echo last words; exit 7");
  const std::uint64_t crashes = Submit(
      second,
      "[ $CARMA_ATTEMPT != 1 ] || { echo 'RuntimeError: CUDA out of memory.' >&2; exit 1; }");
  ASSERT_EQ(first.Hear(), "1");
  ASSERT_EQ(second.Hear(), "1");
  const Watched first_shim(ShimOf(site.AwaitState(fails, "running"))),
      second_shim(ShimOf(site.AwaitState(crashes, "running")));
  site.Stop(SIGKILL);
  first.Open();
  second.Open();
  ASSERT_TRUE(first_shim.Ends());
  ASSERT_TRUE(second_shim.Ends());
  site.Start();
  EXPECT_EQ(site.Await(fails).exit_code, 7);
  EXPECT_EQ(site.Task(fails).state, "failed");
  EXPECT_EQ(site.Output(fails), "last words\n");
  ASSERT_EQ(second.Hear(), "2") << "running out of memory still leads to a retry";
  second.Open();
  EXPECT_EQ(site.Await(crashes).state, "succeeded");
  EXPECT_EQ(site.Task(crashes).ooms, 1);
}

TEST_F(Restart, CarriesOutARequestedStop) {
  site.Set("task.kill_grace", "\"1s\"");
  site.Restart(SIGTERM);
  Bell bell(site.out_dir() + "/bell");
  const std::uint64_t id = site.Submit(
      {"--", "/bin/sh", "-c", "trap '' TERM; echo up > " + bell.path() + "; exec sleep 10000"});
  ASSERT_EQ(bell.Hear(), "up");
  site.AwaitState(id, "running");
  EXPECT_TRUE(site.Carma({"cancel", std::to_string(id)}).Ok());
  site.Restart(SIGKILL);
  EXPECT_EQ(site.Await(id).state, "cancelled");
  site.ExpectIdle();
}

TEST_F(Restart, ALaunchThatDiedWithTheDaemonRunsOnce) {
  constexpr int kRounds = 12;
  const std::string marks = site.out_dir() + "/marks";
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < kRounds; ++i) {
    // The response is sent while the launch begins, so the kill interrupts the launch at a random
    // point.
    ids.push_back(
        site.Submit({"--", "/bin/sh", "-c", "echo $CARMA_TASK_ID >> " + marks + "; exit 4"}));
    site.Restart(SIGKILL);
  }
  for (const std::uint64_t id : ids) EXPECT_EQ(site.Await(id).exit_code, 4) << id;
  std::map<std::string, int> runs;
  const std::string text = ReadText(marks);
  for (std::string_view line : base::Split(text, '\n')) {
    if (!line.empty()) ++runs[std::string(line)];
  }
  EXPECT_EQ(runs.size(), ids.size());
  for (const auto& [id, count] : runs) EXPECT_EQ(count, 1) << "task " << id;
  site.ExpectIdle();
}

TEST_F(Restart, WaitingCommandsOutliveTheDaemon) {
  Gated gated(site, "gated");
  const std::uint64_t ends = site.Submit({"--", "/bin/true"});
  const std::uint64_t stays = Submit(gated, "exit 9");
  ASSERT_EQ(gated.Hear(), "1");
  Child waiting = site.StartCarma({"wait", std::to_string(ends), std::to_string(stays)});
  // Once it has reported the first task, the command waits for the second.
  ASSERT_TRUE(Eventually([&] { return waiting.Out().find("succeeded") != std::string::npos; }));
  site.Restart(SIGTERM);
  gated.Open();
  const Ran ran = waiting.Wait();
  EXPECT_EQ(ran.code, 9) << ran.Text();
}

TEST_F(Restart, APoliteStopLeavesTasksRunning) {
  Gated gated(site, "gated");
  const std::uint64_t id = Submit(gated, "exit 0");
  ASSERT_EQ(gated.Hear(), "1");
  const Ran stopped = site.Stop(SIGTERM);
  EXPECT_EQ(stopped.code, 0) << stopped.Text();
  const Ran alone = site.Carma({"list"});
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.err, HasSubstr(site.socket()));
  site.Start();
  EXPECT_EQ(site.AwaitState(id, "running").attempt, 1);
  gated.Open();
  EXPECT_EQ(site.Await(id).state, "succeeded");
}

TEST_F(Restart, ASecondDaemonOnTheSameStateIsRefused) {
  const Ran same = RunProgram({Program("carmad"), "--config", site.config_file()});
  EXPECT_EQ(same.code, 1) << same.Text();
  EXPECT_THAT(same.err, HasSubstr(std::to_string(site.daemon().pid()))) << "names the other";
  const Ran other_socket = RunProgram({Program("carmad"), "--config", site.config_file(),
                                       "--socket", site.folder() / "other.sock"});
  EXPECT_EQ(other_socket.code, 1) << other_socket.Text();
  const Ran other_state = RunProgram({Program("carmad"), "--config", site.config_file(),
                                      "--state-dir", site.folder() / "other-state"});
  EXPECT_EQ(other_state.code, 1) << other_state.Text();
  EXPECT_THAT(other_state.err, HasSubstr(site.socket()));
  for (const char* way : {"--background", "--beside"}) {
    const Ran simulated =
        RunProgram({Program("carmad"), way, "--config", site.config_file(), "--state-dir",
                    site.folder() / "other-state", "--simulate", "1xA100-40GB"});
    EXPECT_EQ(simulated.code, 1) << simulated.Text();
    EXPECT_FALSE(base::Exists(site.folder() / "other-state/gpus"))
        << "a start with another shape would be refused";
  }
  const Ran same_state = RunProgram({Program("carmad"), "--beside", "--config", site.config_file(),
                                     "--socket", site.folder() / "other.sock", "--state-dir",
                                     site.state_dir(), "--simulate", "1xA100-40GB"});
  EXPECT_EQ(same_state.code, 1) << same_state.Text();
  EXPECT_TRUE(base::Exists(site.state_dir() + "/gpus"))
      << "the first one may have been started with --simulate, too";
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded")
      << "the first one is unaffected";
}

TEST_F(Restart, ASecondSimultaneousStartKeepsTheSimulatedGpusOfTheFirst) {
  const std::string folder = site.folder() / "new";
  std::filesystem::create_directory(folder);
  const base::UniqueFd first(::open(folder.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(first.get(), LOCK_EX), 0);
  const Words create{Program("carma-simgpu"), "create", "--state", folder + "/gpus", "--shape"};
  Words another = create, one = create;
  another.insert(another.end(), {"1xA100-40GB", "--keep"});
  one.emplace_back("2xA100-40GB");
  Child second = Child::Start(another);
  EXPECT_EQ(RunProgram(one).code, 0);
  ASSERT_EQ(::flock(first.get(), LOCK_UN), 0);
  const Ran refused = second.Wait();
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("simulates 2xA100-40GB"));
}

TEST_F(Restart, AnUpgradeMayRemoveTheOldPrograms) {
  const auto install = [&](const std::string& name) {
    const std::string folder = site.folder() / name;
    std::filesystem::create_directory(folder);
    for (const char* program : {"carmad", "carma-reader", "carma-shim"})
      std::filesystem::copy(Program(program), folder + "/" + program);
    return folder;
  };
  site.Stop(SIGTERM);
  const std::string old_programs = install("old");
  site.UsePrograms(old_programs);
  site.Start();
  Gated gated(site, "gated");
  const std::uint64_t id = Submit(gated, "echo ended under the new one; exit 6");
  ASSERT_EQ(gated.Hear(), "1");
  site.Stop(SIGTERM);
  std::filesystem::remove_all(old_programs);
  site.UsePrograms(install("new"));
  site.Start();
  gated.Open();
  EXPECT_EQ(site.Await(id).exit_code, 6);
  EXPECT_EQ(site.Output(id), "ended under the new one\n");
}

TEST_F(Restart, ATaskIsStoppedAndRestartedIfItsShimIsLost) {
  Gated gated(site, "gated");
  const std::uint64_t id = Submit(gated, "exit 0");
  ASSERT_EQ(gated.Hear(), "1");
  const api::TaskView first = site.AwaitState(id, "running");
  const Watched task(static_cast<pid_t>(*first.pid));
  ::kill(ShimOf(first), SIGKILL);
  EXPECT_TRUE(task.Ends());
  EXPECT_EQ(gated.Hear(), "2");
  gated.Open();
  EXPECT_EQ(site.Await(id).state, "succeeded");
  site.ExpectIdle();
}

TEST_F(Restart, AStartedTaskWhoseFolderIsGoneIsLostAndNotRepeated) {
  Gated once(site, "once"), again(site, "again");
  const std::uint64_t ends = Submit(once, "exit 0", {"--no-requeue"});
  const std::uint64_t comes_back = Submit(again, "exit 0");
  ASSERT_EQ(once.Hear(), "1");
  ASSERT_EQ(again.Hear(), "1");
  const Watched first(static_cast<pid_t>(*site.AwaitState(ends, "running").pid));
  const Watched second(static_cast<pid_t>(*site.AwaitState(comes_back, "running").pid));
  site.Stop(SIGKILL);
  std::filesystem::remove_all(site.state_dir() + "/attempts");
  site.Start();
  const api::TaskView lost = site.Await(ends);
  EXPECT_EQ(lost.state, "lost");
  EXPECT_EQ(lost.attempt, 1);
  EXPECT_EQ(again.Hear(), "2");
  EXPECT_TRUE(first.Ends());
  EXPECT_TRUE(second.Ends());
  again.Open();
  const api::TaskView done = site.Await(comes_back);
  EXPECT_EQ(done.state, "succeeded");
  EXPECT_EQ(done.attempt, 2);
  site.ExpectIdle();
}

TEST_F(Restart, ASubmissionThatIsRepeatedAfterAKillIsTheSame) {
  const std::string body =
      "{\"request\":\"once\",\"tasks\":[{\"command\":[\"/bin/true\"],\"workdir\":\"/\","
      "\"stdout_path\":\"/dev/null\"}]}";
  const auto first = site.client().Call("POST", "/v1/tasks", body);
  ASSERT_TRUE(first) << first.error().message;
  site.Restart(SIGKILL);
  const auto again = site.client().Call("POST", "/v1/tasks", body);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *first);
}

// The submission is stored in pieces, and each kill interrupts a different piece.
TEST_F(Restart, AnInterruptedLargeSubmissionIsAllOrNothing) {
  constexpr std::int64_t kTasks = 6'000;
  std::string indices = "0";
  for (std::int64_t i = 1; i < kTasks; ++i) indices += fmt::format(",{}", i);
  const auto count = [&] {
    std::int64_t all = 0;
    for (const auto& [state, tasks] : site.Status().task_counts) all += tasks;
    return all;
  };
  ASSERT_TRUE(site.Carma({"drain", "all"}).Ok());
  std::int64_t before = count();
  for (const int life_ms : {10, 40, 80, 150, 250}) {
    SCOPED_TRACE(life_ms);
    const std::string body = fmt::format(
        R"({{"request":"large-{}","spec":{{"command":["/bin/true"],"workdir":"/"}},"array":[{}]}})",
        life_ms, indices);
    bool accepted = false;
    std::thread submitter([&] {
      api::Client client(site.socket());
      accepted = client.Call("POST", "/v1/tasks", body).has_value();
    });
    (void)WaitReadable(site.daemon().end_fd(), std::chrono::milliseconds(life_ms));
    site.Stop(SIGKILL);
    submitter.join();
    site.Start();
    const std::int64_t kept = count() - before;
    EXPECT_TRUE(kept == kTasks || (kept == 0 && !accepted)) << kept << " are there";
    const auto again = site.client().Call("POST", "/v1/tasks", body);
    EXPECT_TRUE(again) << again.error().message;
    EXPECT_EQ(count(), before + kTasks);
    before += kTasks;
  }
  EXPECT_EQ(site.Carma({"submit", "--", "/bin/true"}).code, 0) << "the database can be written";
  site.Stop(SIGTERM);  // cancelling thirty thousand tasks one by one takes too long
}

TEST_F(Restart, RemovesRemainsOfEndedAttemptsAfterAKill) {
  Gated gated(site, "gated");
  const std::uint64_t runs = Submit(gated, "exit 4");
  ASSERT_EQ(gated.Hear(), "1");
  site.AwaitState(runs, "running");
  const std::uint64_t ended = site.Submit({"--", "/bin/true"});
  site.Await(ended);
  site.Stop(SIGKILL);
  const std::string attempts = site.state_dir() + "/attempts/";
  const std::string left = fmt::format("{}{}/1", attempts, ended), unknown = attempts + "4711/3";
  std::filesystem::create_directories(left);
  std::filesystem::create_directories(unknown);
  WriteText(left + "/order.json", "{}");
  site.Start();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(std::filesystem::exists(unknown));
  gated.Open();
  EXPECT_EQ(site.Await(runs).exit_code, 4);
}

TEST_F(Restart, AMissingDatabaseIsReportedAndSubmissionsAreRefused) {
  const std::string file = site.state_dir() + "/carma.db", away = site.folder() / "away";
  std::filesystem::rename(file, away);
  const Ran refused = site.Carma({"submit", "--", "/bin/true"});
  EXPECT_EQ(refused.code, 1) << refused.Text();
  EXPECT_THAT(refused.err, AllOf(HasSubstr("nothing was accepted"), HasSubstr("was removed while"),
                                 HasSubstr("before carmad stops, or restore a backup")));
  EXPECT_THAT(site.Status().troubles, Contains(HasSubstr("carma.db was removed")));
  std::filesystem::rename(away, file);
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
  EXPECT_THAT(site.Status().troubles, IsEmpty());
}

TEST_F(Restart, ALostShimEndsATaskThatMustNotStartAgain) {
  Gated gated(site, "gated");
  const std::uint64_t id = Submit(gated, "exit 0", {"--no-requeue"});
  ASSERT_EQ(gated.Hear(), "1");
  const pid_t shim = ShimOf(site.AwaitState(id, "running"));
  site.Stop(SIGKILL);
  ::kill(shim, SIGKILL);
  site.Start();
  EXPECT_EQ(site.Await(id).state, "lost");
  EXPECT_EQ(site.Task(id).attempt, 1);
}

}  // namespace
}  // namespace carma::system_test
