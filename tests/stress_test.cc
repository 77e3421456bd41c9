// Runs thousands of short tasks while the daemon is killed repeatedly, alone or with all its child
// processes. Every task must end exactly once, with its own exit code. No attempt may start twice,
// and nothing may be left behind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"
#include "cli/calls.h"
#include "task/describe/spec.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

constexpr std::int64_t kSeed = 20'260'301;

std::int64_t Sized(const char* variable, std::int64_t usual) {
  return base::ParseInt(base::GetEnv(variable)).value_or(usual);
}

class Stress : public ::testing::Test {
 protected:
  Stress()
      : site_({.shape = "8xA100-40GB",
               .time_scale = 1000,
               .settings = {{"policy.settle", "false"},
                            {"policy.sm_cap", "false"},
                            {"policy.margin", "0"},
                            {"task.cgroups", "false"},
                            {"daemon.log_level", "\"warn\""}}}) {
    ::mkdir(marks_.c_str(), 0777);
  }

  // Every kind of task except one appends a line to its attempt's mark file when it starts.
  task::TaskSpec MakeSpec(std::int64_t i) {
    task::TaskSpec spec;
    spec.workdir = site_.out_dir();
    spec.environment = {{"PATH", "/usr/bin:/bin"}};
    spec.memory_mib = 1000;
    spec.stdout_path = "/dev/null";
    const std::string mark = "echo x >> " + marks_ + "/$CARMA_TASK_ID.$CARMA_ATTEMPT; ";
    int code = 0;
    switch (i % 4) {
      case 0:
        spec.command = SimTask({.memory_mib = 900, .solo_s = 5, .sm_active = 0.1});
        spec.command.insert(spec.command.begin(), {"/bin/sh", "-c", mark + "exec \"$@\"", "sh"});
        break;
      case 1:
        spec.command = {"/bin/true"};
        break;
      default:
        code = static_cast<int>(rng_.Below(256));
        spec.command = {"/bin/sh", "-c", mark + "exit " + std::to_string(code)};
    }
    task::FillDefaults(spec);
    codes_.push_back(code);
    return spec;
  }

  void SubmitAll(std::int64_t count) {
    std::vector<std::string> specs;
    for (std::int64_t i = 0; i < count; ++i) specs.push_back(task::ToJsonText(MakeSpec(i)));
    const auto answer = cli::SubmitTasks(site_.client(), specs);
    ASSERT_TRUE(answer) << answer.error().message;
    first_ = answer->value.first;
  }

  // Checks that task i ended with its own exit code, and that no attempt started twice.
  void ExpectEndedOnce(std::int64_t i) {
    const std::uint64_t id = first_ + static_cast<std::uint64_t>(i);
    const api::TaskView task = site_.Await(id, std::chrono::seconds(120));
    const int code = codes_[static_cast<std::size_t>(i)];
    ASSERT_EQ(task.state, code == 0 ? "succeeded" : "failed")
        << "task " << id << ": " << task.reason << " " << task.reason_text;
    EXPECT_EQ(task.exit_code, code) << "task " << id;
    for (int attempt = 1; attempt <= task.attempt; ++attempt) {
      const std::string mark = ReadText(fmt::format("{}/{}.{}", marks_, id, attempt));
      const bool last = attempt == task.attempt;
      if (last && i % 4 != 1) {
        EXPECT_EQ(mark, "x\n") << "task " << id << ", attempt " << attempt;
      } else {
        EXPECT_LE(mark.size(), 2U) << "task " << id << ", attempt " << attempt << " began twice";
      }
    }
  }

  void KillOneOf(const std::string& name) {
    const std::vector<pid_t> pids = site_.Processes(name);
    if (pids.empty()) return;
    ::kill(pids[rng_.Below(pids.size())], SIGKILL);
    ++killed_[name];
  }

  std::map<std::string, std::int64_t> Counts() {
    const api::StatusView status = site_.Status();
    return {status.task_counts.begin(), status.task_counts.end()};
  }

  Site site_;
  base::Rng rng_{static_cast<std::uint64_t>(Sized("CARMA_STRESS_SEED", kSeed))};
  std::string marks_ = site_.out_dir() + "/marks";
  std::vector<int> codes_;
  std::map<std::string, int> killed_;
  std::uint64_t first_ = 0;
};

TEST_F(Stress, EveryTaskEndsOnceAlthoughTheDaemonIsKilled) {
  const std::int64_t tasks = Sized("CARMA_STRESS_TASKS", 2000);
  const std::int64_t kills = Sized("CARMA_STRESS_KILLS", 30);
  site_.Start();
  SubmitAll(tasks);
  ASSERT_FALSE(HasFatalFailure());
  for (std::int64_t i = 0; i < kills; ++i) {
    // Some kills hit the daemon while it is still adopting its predecessor's tasks.
    const std::chrono::milliseconds life(rng_.Below(i % 5 == 0 ? 20 : 700));
    ASSERT_FALSE(WaitReadable(site_.daemon().end_fd(), life)) << site_.daemon().Err();
    site_.Stop(SIGKILL);
    site_.Start(i % 5 != 4 || i + 1 == kills);  // false: does not wait for GPUs or tasks
    ASSERT_FALSE(HasFatalFailure());
  }
  for (std::int64_t i = 0; i < tasks; ++i) {
    ExpectEndedOnce(i);
    ASSERT_FALSE(HasFatalFailure());
  }
  std::int64_t counted = 0;
  for (const auto& [state, count] : Counts()) counted += count;
  EXPECT_EQ(counted, tasks);
  site_.ExpectIdle();
}

// Also kills shims, GPU readers, MPS servers and their control daemons, and once deletes the
// folders of all attempts.
TEST_F(Stress, NoAttemptBeginsTwiceAlthoughEverythingIsKilled) {
  const std::int64_t tasks = Sized("CARMA_STRESS_TASKS", 1000);
  const std::int64_t kills = Sized("CARMA_STRESS_KILLS", 40);
  const std::string control = site_.folder() / "carma-simmps";
  std::filesystem::copy_file(Program("carma-simmps"), control);
  site_.Set("collocation.method", "\"mps\"");
  site_.Set("collocation.mps_control", "\"" + control + "\"");
  site_.Set("collocation.mps_dir", "\"" + (site_.folder() / "mps") + "\"");
  site_.Set("recovery.max_node_failures", "100");
  site_.Set("recovery.max_victim_restarts", "100");
  site_.Start();
  SubmitAll(tasks);
  ASSERT_FALSE(HasFatalFailure());
  for (std::int64_t i = 0; i < kills; ++i) {
    ASSERT_FALSE(WaitReadable(site_.daemon().end_fd(), std::chrono::milliseconds(rng_.Below(300))))
        << site_.daemon().Err();
    const auto which = rng_.Below(10);
    if (which < 3) KillOneOf("carma-shim");
    if (which == 3) KillOneOf("carma-reader");
    if (which == 4 || which == 5) KillOneOf("carma-simmps");  // a server or a control daemon
    if (which < 6) continue;
    site_.Stop(SIGKILL);
    ++killed_["carmad"];
    // Retries because an exiting shim may be removing its own files at the same time.
    std::error_code again;
    do {
      if (killed_["carmad"] == 5)
        std::filesystem::remove_all(site_.state_dir() + "/attempts", again);
    } while (again);
    site_.Start();
    ASSERT_FALSE(HasFatalFailure());
  }
  for (std::int64_t i = 0; i < tasks; ++i) {
    ExpectEndedOnce(i);
    ASSERT_FALSE(HasFatalFailure());
  }
  for (const auto& [name, count] : killed_) RecordProperty("killed_" + name, count);
  site_.ExpectIdle();
  EXPECT_TRUE(Eventually([&] {
    return std::filesystem::is_empty(site_.state_dir() + "/attempts");
  })) << "folders are left";
  EXPECT_TRUE(Eventually([&] { return site_.Processes("carma-shim").empty(); }));
  EXPECT_TRUE(Eventually([&] { return site_.Processes("carma-simmps").empty(); }));
  site_.Stop(SIGTERM);
  EXPECT_TRUE(Eventually([&] { return site_.Processes("carma-reader").empty(); }));
}

}  // namespace
}  // namespace carma::system_test
