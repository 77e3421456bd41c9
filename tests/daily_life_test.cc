// Tests day-to-day server operation: reloading the configuration, closing terminals, and a log that
// records which user did what.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/json.h"
#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class DailyLife : public ::testing::Test {
 protected:
  bool Logs(const std::string& text) {
    return Eventually([&] { return site.daemon().Err().find(text) != std::string::npos; });
  }
  // The log line that contains this text; empty if there is none.
  std::string LogLine(const std::string& text) {
    const std::string log = site.daemon().Err();
    for (const std::string_view line : base::Split(log, '\n')) {
      if (line.find(text) != std::string_view::npos) return std::string(line);
    }
    return "";
  }
  // Reloads the configuration and waits until the daemon has done so, with or without errors.
  void Reload() {
    const auto count = [this] {
      const std::string log = site.daemon().Err();
      std::size_t lines = 0;
      for (const std::string_view line : base::Split(log, '\n')) {
        lines += line.find("event=config_read ") != std::string_view::npos ||
                 line.find("event=config_not_read") != std::string_view::npos;
      }
      return lines;
    };
    const std::size_t before = count();
    site.daemon().Signal(SIGHUP);
    ASSERT_TRUE(Eventually([&] { return count() > before; })) << site.daemon().Err();
  }

  Site site{{.shape = "1xA100-40GB"}};
};

TEST_F(DailyLife, ChangedRulesApplyToWaitingTasksOnly) {
  site.Start();
  Gated first(site, "first"), second(site, "second");
  const std::uint64_t runs = first.Submit(site, "exit 3", {"--memory", "20G"});
  ASSERT_EQ(first.Hear(), "1");
  const std::uint64_t waits = second.Submit(site, "exit 0", {"--memory", "18G"});
  site.ExpectWaits(waits, "GpuMemory");
  const api::TaskView before = site.AwaitState(runs, "running");
  const std::int64_t read_ms = site.Status().config_read_ms;
  site.Set("policy.margin", "\"100M\"");
  site.Set("monitor.window", "\"40s\"");
  Reload();
  ASSERT_EQ(second.Hear(), "1") << "with less margin both fit";
  EXPECT_EQ(site.AwaitState(runs, "running").pid, before.pid);
  EXPECT_THAT(LogLine("event=config_changed"),
              AllOf(HasSubstr("key=policy.margin"), HasSubstr("100M"), HasSubstr("carma.toml:")));
  EXPECT_THAT(LogLine("event=config_needs_restart"), HasSubstr("key=monitor.window"));
  const api::StatusView status = site.Status();
  EXPECT_GT(status.config_read_ms, read_ms);
  EXPECT_THAT(status.config_needs_restart, ElementsAre("monitor.window"));
  EXPECT_THAT(status.policy, HasSubstr("margin 100M"));
  EXPECT_THAT(site.Carma({"status"}).out, HasSubstr("needs a restart: monitor.window"));
  first.Open();
  second.Open();
  EXPECT_EQ(site.Await(runs).exit_code, 3);
  EXPECT_EQ(site.Await(waits).state, "succeeded");
}

TEST_F(DailyLife, LimitsNamesAndTheLevelOfTheLogFollowTheConfiguration) {
  site.Start();
  site.Submit({"--hold", "--", "/bin/true"});
  site.Set("task.max_queued", "1");
  site.Set("task.max_batch", "2");
  site.Set("daemon.admins", "[\"nobody\"]");
  Reload();
  EXPECT_THAT(site.Carma({"submit", "--", "/bin/true"}).err, HasSubstr("task.max_queued"));
  EXPECT_THAT(site.Carma({"submit", "--array", "0-2", "--", "/bin/true"}).err,
              HasSubstr("task.max_batch"));
  if (IsRoot()) {
    const Ran drained = site.Carma({"drain", "0"}, {.uid = OtherUser()});
    EXPECT_TRUE(drained.Ok()) << drained.Text();
    site.Set("daemon.admins", "[]");
    site.Set("daemon.allow_users", "[\"somebody-else\"]");
    Reload();
    EXPECT_THAT(site.Carma({"resume", "0"}, {.uid = OtherUser()}).err,
                HasSubstr("has read-only access"));
  }
  site.Set("daemon.log_level", "\"error\"");
  Reload();
  site.Set("task.max_queued", "1000");
  site.daemon().Signal(SIGHUP);
  ASSERT_TRUE(Eventually([&] { return site.Carma({"submit", "--", "/bin/true"}).Ok(); }));
  EXPECT_THAT(LogLine("event=config_changed key=task.max_queued from=1 "), "") << "not logged";
}

TEST_F(DailyLife, AMistakeInTheFileIsReportedUntilItIsFixed) {
  site.Start();
  site.Set("policy.margin", "\"100M\"");
  site.Set("policy.sm_cap", "80");
  Reload();
  const std::string line = LogLine("event=config_not_read");
  EXPECT_THAT(line, AllOf(HasSubstr("level=error"), HasSubstr("carma.toml:"),
                          HasSubstr("policy.sm_cap: expected fraction")));
  api::StatusView status = site.Status();
  EXPECT_THAT(status.policy, Not(HasSubstr("margin")));
  EXPECT_THAT(status.troubles, Contains(HasSubstr("policy.sm_cap")));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""),
              HasSubstr("\ncarma_daemon_config_failing 1\n"));
  site.Set("policy.sm_cap", "0.7");
  Reload();
  status = site.Status();
  EXPECT_THAT(status.troubles, IsEmpty());
  EXPECT_THAT(status.policy, AllOf(HasSubstr("margin 100M"), HasSubstr("80 %")))
      << "streams_sm_cap applies when tasks share GPUs through streams";
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
}

// If the configured group no longer exists, carmad still starts, but admits only root and its own
// user.
TEST_F(DailyLife, AMissingGroupAdmitsNoUserAndIsReported) {
  site.Set("daemon.allow_groups", "[\"nogroup_x\"]");
  site.Start();
  EXPECT_TRUE(Logs("event=unknown_name key=daemon.allow_groups"));
  EXPECT_TRUE(Eventually([&] {
    const std::vector<std::string> troubles = site.Status().troubles;
    return !troubles.empty() && troubles[0].find("no group 'nogroup_x'") != std::string::npos;
  }));
  if (IsRoot()) {
    const Ran refused = site.Carma({"submit", "--", "/bin/true"}, {.uid = OtherUser()});
    EXPECT_THAT(refused.err, HasSubstr("has read-only access"));
  }
}

// ---- terminals ----

// A separate terminal in which a shell runs a command line.
class Terminal {
 public:
  explicit Terminal(const std::string& line) {
    int master = -1;
    pid_ = ::forkpty(&master, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      ::_exit(127);
    }
    master_.reset(master);
  }
  ~Terminal() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  // Has the same effect as closing the terminal window.
  void Close() { master_.reset(); }

 private:
  pid_t pid_ = 0;
  base::UniqueFd master_;
};

TEST_F(DailyLife, AClosedTerminalEndsNeitherTheDaemonNorItsTasks) {
  for (const char* form : {"{0}", "{0}; true", "{0} & wait", "{0} 2>&1 | head -n 1"}) {
    Terminal terminal(
        fmt::format(fmt::runtime(form), Program("carmad") + " --config " + site.config_file()));
    std::optional<api::StatusView> status;
    ASSERT_TRUE(Eventually([&] {
      const auto answer = cli::GetStatus(site.client());
      if (answer) status = answer->value;
      return answer.has_value() && cli::ListGpus(site.client()).has_value();
    })) << form;
    const Watched daemon(static_cast<pid_t>(status->pid));
    const std::string name = fmt::format("gated{}", status->pid);
    Gated gated(site, name);
    const std::uint64_t id = gated.Submit(site, "exit 4");
    ASSERT_EQ(gated.Hear(), "1");
    terminal.Close();
    // The hangup makes the daemon reload its configuration. The daemon's log output is lost.
    EXPECT_TRUE(Eventually([&] { return site.Status().config_read_ms > status->config_read_ms; }))
        << form;
    EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded") << form;
    gated.Open();
    EXPECT_EQ(site.Await(id).exit_code, 4) << form;
    EXPECT_EQ(site.Status().pid, status->pid) << form;
    ::kill(static_cast<pid_t>(status->pid), SIGTERM);
    EXPECT_TRUE(daemon.Ends()) << form;
  }
}

// Simulates a lost connection to the terminal window: nothing reads the terminal, and no hangup
// arrives.
TEST_F(DailyLife, AnUnreadTerminalDelaysNoOtherTask) {
  Terminal terminal("exec " + Program("carmad") + " --config " + site.config_file());
  ASSERT_TRUE(Eventually([&] { return cli::ListGpus(site.client()).has_value(); }));
  const auto pid = static_cast<pid_t>(site.Status().pid);
  const std::uint64_t id = site.Submit({"--hold", "--", "/bin/true"});
  // Produces slightly more than the 64 KiB that a terminal buffers.
  constexpr int kLines = 600;
  for (int i = 0; i < kLines; ++i)
    ASSERT_TRUE(cli::SetPriority(site.client(), id, -i)) << "after " << i << " lines";
  EXPECT_EQ(site.Task(id).priority, 1 - kLines);
  const Watched daemon(pid);
  ::kill(pid, SIGTERM);
  EXPECT_TRUE(daemon.Ends());
}

// ---- in the background ----

class Background : public DailyLife {
 protected:
  Ran Launch(Words more = {}) const {
    Words argv = {Program("carmad"), "--background", "--config", site.config_file()};
    argv.insert(argv.end(), more.begin(), more.end());
    return RunProgram(argv);
  }
  void ExpectNobody() { EXPECT_FALSE(cli::GetStatus(site.client())); }
  void ReopensLogAndEnds(const std::string& log, pid_t pid) const {
    ::kill(pid, SIGHUP);
    EXPECT_TRUE(
        Eventually([&] { return ReadText(log).find("event=config_read") != std::string::npos; }));
    const Watched daemon(pid);
    ::kill(pid, SIGTERM);
    EXPECT_TRUE(daemon.Ends());
  }
};

TEST_F(Background, TheShellComesBackOnceTheSocketAnswers) {
  const Ran launched = Launch();
  const auto status = cli::GetStatus(site.client());
  ASSERT_TRUE(status) << launched.Text();
  EXPECT_EQ(launched.code, 0);
  EXPECT_EQ(launched.err, "");
  const auto pid = static_cast<pid_t>(status->value.pid);
  EXPECT_THAT(launched.out, AllOf(HasSubstr(fmt::format("process {},", pid)),
                                  HasSubstr(site.state_dir() + "/carmad.log")));
  EXPECT_EQ(::getsid(pid), pid);
  EXPECT_EQ(status->value.config_file, site.config_file());
  const Ran second = Launch();
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr(fmt::format("in use by another carmad (pid {})", pid)));
  ASSERT_TRUE(Eventually([&] { return cli::ListGpus(site.client()).has_value(); }));
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
  // On SIGHUP, carmad reopens its log, so a log that was moved away stops growing.
  const std::string log = site.state_dir() + "/carmad.log";
  EXPECT_THAT(ReadText(log), HasSubstr("event=task_submitted task=1"));
  std::filesystem::rename(log, log + ".1");
  ReopensLogAndEnds(log, pid);
}

TEST_F(Background, RenamesALargeLog) {
  const std::string log = site.state_dir() + "/carmad.log";
  EXPECT_EQ(Launch().code, 0);
  const auto status = cli::GetStatus(site.client());
  ASSERT_TRUE(status) << status.error().message;
  std::filesystem::resize_file(log, (64 << 20) - 1);
  ASSERT_TRUE(Eventually([&] { return cli::ListGpus(site.client()).has_value(); }));
  site.Submit({"--hold", "--", "/bin/true"});  // its line makes the log too large
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(log + ".old"); }));
  EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(log); }));
  EXPECT_LT(std::filesystem::file_size(log), 1U << 20);
  ReopensLogAndEnds(log, static_cast<pid_t>(status->value.pid));
}

TEST_F(Background, StartsWithItsStreamsClosed) {
  const Ran launched = RunProgram(
      {"sh", "-c",
       Program("carmad") + " --background --config " + site.config_file() + " <&- >&- 2>&-"});
  EXPECT_EQ(launched.code, 0) << launched.Text();
  const auto status = cli::GetStatus(site.client());
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_THAT(ReadText(site.state_dir() + "/lock"), Not(HasSubstr("event=")));
  const auto pid = static_cast<pid_t>(status->value.pid);
  const Watched daemon(pid);
  ::kill(pid, SIGTERM);
  EXPECT_TRUE(daemon.Ends());
}

TEST_F(Background, ReportsWhyItDoesNotServeAndLeavesNoProcess) {
  const struct {
    std::string name;
    Words more;
    int code;
    std::string says;
  } cases[] = {
      {"a wrong flag", {"--bakground"}, 2, "--bakground"},
      {"a wrong value", {"--socket", "here"}, 2, "carmad: --socket: daemon.socket: expected"},
      {"a log in a missing folder", {"--log", "/no/such/folder/log"}, 1, "/no/such/folder/log"},
      {"a state folder that cannot be created", {"--state-dir", "/proc/carma"}, 1, "carmad: "},
      {"a socket that cannot be created", {"--socket", "/proc/carma/socket"}, 1, "carmad: "},
  };
  for (const auto& each : cases) {
    const Ran refused = Launch(each.more);
    EXPECT_EQ(refused.code, each.code) << each.name << refused.Text();
    EXPECT_THAT(refused.err, HasSubstr(each.says)) << each.name;
    ExpectNobody();
  }
}

TEST_F(Background, ReportsATaskThatItCannotTakeOver) {
  site.Start();
  site.Submit({"--hold", "--", "/bin/true"});
  EXPECT_EQ(site.Stop(SIGTERM).code, 0);
  const Ran changed = RunProgram({"python3", "-c",
                                  "import sqlite3, sys\n"
                                  "database = sqlite3.connect(sys.argv[1])\n"
                                  "database.execute('UPDATE task SET placement=?', ('?',))\n"
                                  "database.commit()",
                                  site.state_dir() + "/carma.db"});
  ASSERT_TRUE(changed.Ok()) << changed.Text();
  const Ran refused = Launch();
  EXPECT_EQ(refused.code, 1) << refused.Text();
  EXPECT_THAT(refused.err, AllOf(StartsWith("carmad: "), HasSubstr("task 1 in the state file"),
                                 HasSubstr("; restore a backup\n")));
  EXPECT_THAT(ReadText(site.state_dir() + "/carmad.log"), HasSubstr("event=start_failed"));
  ExpectNobody();
}

// ---- the log ----

TEST_F(DailyLife, InTheJournalEachLineHasItsPriority) {
  // JOURNAL_STREAM holds the device and inode of standard error, as under a service manager.
  const auto in_journal = [](Words argv) {
    argv.insert(
        argv.begin(),
        {"/bin/sh", "-c", "JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"", "sh"});
    return argv;
  };
  const Ran refused = RunProgram(in_journal({Program("carmad"), "--config", "/no/such/file"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, StartsWith("<3>carmad: configuration: "));
  Child daemon = Child::Start(in_journal({Program("carmad"), "--config", site.config_file()}));
  ASSERT_TRUE(Eventually([&] { return daemon.Err().find("engine_started") != std::string::npos; }))
      << daemon.Err();
  daemon.Signal(SIGTERM);
  const std::string log = daemon.Wait().err;
  for (const std::string_view line : base::Split(log, '\n')) {
    const bool information = line.find(" level=info ") != std::string_view::npos;
    if (information) {
      EXPECT_THAT(std::string(line), StartsWith("<6>2"));
    }
  }
  site.Start(true, {.environment = {{"JOURNAL_STREAM", "1:1"}}});
  EXPECT_THAT(site.daemon().Err(), StartsWith("2")) << "standard error is something else";
}

TEST_F(DailyLife, TheLogRecordsWhichUserRequestedWhat) {
  site.Start();
  const RunOptions as = IsRoot() ? RunOptions{.uid = OtherUser()} : RunOptions{};
  const uid_t uid = IsRoot() ? OtherUser() : ::getuid();
  const std::string owner = fmt::format("user={} uid={}", ::getpwuid(uid)->pw_name, uid);
  const std::string admin =
      fmt::format("user={} uid={}", ::getpwuid(::getuid())->pw_name, ::getuid());
  const std::string id = std::to_string(site.Submit({"--hold", "--", "/bin/true"}, as));
  EXPECT_TRUE(site.Carma({"priority", "-5", id}, as).Ok());
  EXPECT_TRUE(site.Carma({"drain", "0", "--reason", "new fan"}).Ok());
  EXPECT_TRUE(site.Carma({"release", id}).Ok());
  EXPECT_TRUE(site.Carma({"hold", id}, as).Ok());
  EXPECT_TRUE(site.Carma({"cancel", id}).Ok());
  EXPECT_TRUE(site.Carma({"resume", "0"}).Ok());
  EXPECT_TRUE(site.Carma({"requeue", id}).Ok());
  site.Await(std::stoull(id));
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"task_submitted task=1 count=1", owner},
      {"task_priority task=1", owner},
      {"gpu_drain gpu=0", admin},
      {"task_release task=1", admin},
      {"task_hold task=1", owner},
      {"task_cancel task=1", admin},
      {"gpu_resume gpu=0", admin},
      {"task_requeue task=1", admin},
  };
  for (const auto& [event, who] : expected) {
    EXPECT_TRUE(Logs("event=" + event));
    EXPECT_THAT(LogLine("event=" + event), HasSubstr(who)) << event;
  }
  EXPECT_THAT(LogLine("event=gpu_drain"), HasSubstr("why=\"new fan\""));
  EXPECT_THAT(LogLine("event=task_priority"), HasSubstr("from=0 to=-5"));
}

}  // namespace
}  // namespace carma::system_test
