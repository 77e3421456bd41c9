// Tests edits to waiting tasks and the notices sent when tasks end, using the real programs, a fake
// sendmail and a daemon that gets killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Notify : public ::testing::Test {
 protected:
  Notify() {
    WriteText(mailer(),
              "#!/bin/sh\n(echo \"to: $3\"; id -un | sed 's/^/by: /'; cat) >> " + mails() + "\n",
              0755);
    site.Set("notify.sendmail", "\"" + mailer() + "\"");
  }
  std::string mailer() const { return site.folder() / "sendmail"; }
  std::string mails() const { return site.out_dir() + "/mails"; }
  bool Mailed(const std::string& text) {
    return Eventually([&] { return ReadText(mails()).find(text) != std::string::npos; });
  }
  bool Tells(std::uint64_t id, const std::string& text) {
    return Eventually([&] {
      return site.Carma({"history", std::to_string(id)}).out.find(text) != std::string::npos;
    });
  }

  Site site{{.shape = "1xA100-40GB"}};
};

TEST_F(Notify, AMailReportsTheEndAndIsRecorded) {
  site.Start();
  const std::uint64_t id = site.Submit({"--notify", "ada@example.org:fail", "-J", "sad", "--",
                                        "/bin/sh", "-c", "echo sorry; exit 3"});
  EXPECT_EQ(site.Await(id).state, "failed");
  EXPECT_TRUE(Mailed("Output: ")) << site.daemon().Err();
  EXPECT_THAT(ReadText(mails()),
              AllOf(HasSubstr("Subject: "), HasSubstr("(sad)"), HasSubstr("exit code 3"),
                    HasSubstr("Command:     /bin/sh"), HasSubstr("\n  sorry\n")));
  EXPECT_TRUE(Tells(id, "fail to ada@example.org"));
  EXPECT_THAT(site.Carma({"show", std::to_string(id)}).out,
              AllOf(HasSubstr("ada@example.org: fail"), HasSubstr("sent")));
}

TEST_F(Notify, AProgramRunsAsTheSubmitterAndAMailGoesToThem) {
  const std::string told = site.out_dir() + "/told.sh";
  WriteText(told,
            "#!/bin/sh\nid -u > " + site.out_dir() + "/who\ncat > " + site.out_dir() + "/line\n",
            0755);
  site.Start();
  RunOptions options;
  if (IsRoot()) options.uid = OtherUser();
  const std::uint64_t id =
      site.Submit({"--notify", told + ":start", "--mail-type", "END", "--", "/bin/true"}, options);
  site.Await(id);
  EXPECT_TRUE(Eventually([&] { return !ReadText(site.out_dir() + "/line").empty(); }));
  EXPECT_EQ(ReadText(site.out_dir() + "/who"),
            fmt::format("{}\n", IsRoot() ? OtherUser() : ::getuid()));
  EXPECT_THAT(ReadText(site.out_dir() + "/line"), HasSubstr("\"event\":\"start\""));
  if (IsRoot()) {
    EXPECT_TRUE(Mailed("to: nobody"));
  }
}

TEST_F(Notify, AProgramHasTheLimitsOfATaskAndLeavesNothingBehind) {
  const std::string told = site.out_dir() + "/told.sh", left = site.out_dir() + "/left";
  // Reads the limit from /proc, because shells have different ulimit options for processes.
  WriteText(told,
            "#!/bin/sh\n(grep NoNewPrivs /proc/self/status\n"
            "sed -n 's/^Max processes *\\([^ ]*\\).*/\\1/p' /proc/self/limits\n"
            "setsid sleep 100000 > /dev/null &\necho $!) > " +
                left + ".new\nmv " + left + ".new " + left + "\n",
            0755);
  site.Set("task.max_processes", "321");
  site.Start();
  RunOptions options;
  if (IsRoot()) options.uid = OtherUser();
  const std::uint64_t id = site.Submit({"--notify", told + ":start", "--", "/bin/true"}, options);
  ASSERT_TRUE(Tells(id, "start to ")) << site.daemon().Err();
  ASSERT_TRUE(Eventually([&] { return !ReadText(left).empty(); }));
  std::istringstream lines(ReadText(left));
  std::string word, privileges;
  long limit = 0, sleeper = 0;
  lines >> word >> privileges >> limit >> sleeper;
  EXPECT_EQ(privileges, "1");
  EXPECT_EQ(limit, 321);
  ASSERT_GT(sleeper, 0);
  EXPECT_TRUE(Eventually([&] { return ::kill(static_cast<pid_t>(sleeper), 0) != 0; }));
}

TEST_F(Notify, AKilledDaemonLosesNoNotice) {
  WriteText(mailer(), "#!/bin/sh\nexit 75\n", 0755);
  site.Start();
  const std::uint64_t id = site.Submit({"--notify", "ada@example.org", "--", "/bin/true"});
  site.Await(id);
  ASSERT_TRUE(
      Eventually([&] { return site.daemon().Err().find("notice_not_sent") != std::string::npos; }));
  site.Stop(SIGKILL);
  WriteText(mailer(), "#!/bin/sh\necho \"to: $3\" >> " + mails() + "\n", 0755);
  site.Start();
  EXPECT_TRUE(Mailed("to: ada@example.org"));
  EXPECT_TRUE(Tells(id, "notified"));
}

TEST_F(Notify, HidesThePathOfAWebhook) {
  site.Start();
  const std::uint64_t id =
      site.Submit({"--notify", "http://127.0.0.1:9/services/secret", "--hold", "--", "/bin/true"});
  const std::string shown = site.Carma({"show", std::to_string(id)}).out +
                            site.Carma({"show", "--json", std::to_string(id)}).out;
  EXPECT_THAT(shown, AllOf(HasSubstr("http://127.0.0.1:9/"), Not(HasSubstr("secret"))));
}

TEST_F(Notify, AHangingMailerDelaysNoTask) {
  WriteText(mailer(), "#!/bin/sh\nexec sleep 1000\n", 0755);
  site.Set("notify.time_limit", "\"1s\"");
  site.Start();
  const std::uint64_t id = site.Submit({"--notify", "ada@example.org", "--", "/bin/true"});
  site.Await(id);
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
  EXPECT_TRUE(Eventually([&] {
    return site.daemon().Err().find("took more than") != std::string::npos;
  })) << site.daemon().Err();
}

TEST(Edit, ASweepIsAnArrayWhoseTasksHaveTheirValues) {
  Site site{{.shape = "1xA100-40GB"}};
  site.Start();
  const Ran ran = site.Carma({"submit", "--parsable", "-o", "%a.txt", "--param", "lr=0.1,0.01",
                              "--param", "seed=1,2", "--", "/bin/sh", "-c",
                              "echo lr={lr} $CARMA_PARAM_seed $CARMA_ARRAY_INDEX"});
  EXPECT_EQ(ran.out, "1-4\n") << ran.err;
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_EQ(ReadText(site.out_dir() + "/0.txt"), "lr=0.1 1 0\n");
  EXPECT_EQ(ReadText(site.out_dir() + "/3.txt"), "lr=0.01 2 3\n");
  EXPECT_THAT(site.Carma({"show", "3"}).out, HasSubstr("lr=0.01 seed=1"));
}

TEST(Edit, RefusesACommandThatCannotStart) {
  Site site{{.shape = "1xA100-40GB"}};
  site.Start();
  WriteText(site.out_dir() + "/cpu.py", "print()\n");
  const Ran script = site.Carma({"submit", "cpu.py"});
  EXPECT_EQ(script.code, 2);
  EXPECT_THAT(script.err, HasSubstr("did you mean: python3 cpu.py?"));
  EXPECT_THAT(site.Carma({"submit", "--chdir", "/no/such", "--", "true"}).err,
              HasSubstr("/no/such: no such folder"));
  EXPECT_THAT(site.Carma({"submit", "--conda-env", "none-such", "--", "true"}).err,
              HasSubstr("none-such"));
  EXPECT_EQ(site.Carma({"submit", "--dependency", "afterok:1", "--", "./made-later"}).code, 1)
      << "no task 1";
}

TEST(Edit, TasksAreChosenByNameStateAndArray) {
  Site site{{.shape = "1xA100-40GB"}};
  site.Start();
  const std::uint64_t first = site.Submit({"--hold", "-a", "0-3", "--", "/bin/true"});
  const std::uint64_t other = site.Submit({"--hold", "-J", "other", "--", "/bin/true"});
  site.Submit({"--hold", "-J", "next", "--dependency", "afterok:@", "--", "/bin/true"});
  EXPECT_THAT(site.Carma({"list"}).out, AllOf(HasSubstr("1-4"), HasSubstr("true x4")));
  EXPECT_THAT(site.Carma({"list", "--unfold"}).out, Not(HasSubstr("1-4")));
  EXPECT_THAT(site.Carma({"list", "--tree"}).out, HasSubstr("└─ next"));
  EXPECT_EQ(site.Carma({"redo", "--cascade", "--parsable", std::to_string(other)}).out, "7\n8\n");
  EXPECT_EQ(site.Task(8).dependencies.at(0), "afterok:7");
  EXPECT_EQ(site.Carma({"cancel", "--array", std::to_string(first)}).code, 0);
  EXPECT_EQ(site.Task(first + 3).state, "cancelled");
  EXPECT_EQ(site.Task(other).state, "queued");
  EXPECT_EQ(site.Carma({"cancel", "--name", "other", "--state", "queued"}).code, 0);
  EXPECT_EQ(site.Task(other).state, "cancelled");
  EXPECT_EQ(site.Carma({"wait", "--any", "--timeout", "30s", "6", "7"}).code, 1);
}

TEST(Edit, ChangesWaitingAndRunningTasksAndLogsIt) {
  Site site{{.shape = "1xA100-40GB"}};
  site.Start();
  Gated gated(site, "gated");
  const std::uint64_t runs = gated.Submit(site, "exit 0", {"--exclusive", "--time", "1h"});
  ASSERT_EQ(gated.Hear(), "1");
  const std::uint64_t waits = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
  const std::string first = std::to_string(runs), second = std::to_string(waits);
  EXPECT_EQ(site.Carma({"edit", first, "--time", "2h"}).code, 0);
  EXPECT_EQ(site.Task(runs).time_limit_s, 7200);
  EXPECT_EQ(site.Carma({"edit", first, "-G", "1", "--gpu-mem", "2G"}).code, 1);
  const Ran edited = site.Carma({"edit", second, "--gpu-mem", "3G", "-J", "other", "--begin",
                                 "now+1day", "--dependency", "afterok:" + first});
  EXPECT_EQ(edited.code, 0) << edited.Text();
  site.Restart(SIGKILL);
  const api::TaskView task = site.Task(waits);
  EXPECT_EQ(task.name, "other");
  EXPECT_TRUE(task.begin_ms);
  EXPECT_EQ(task.dependencies.at(0), "afterok:" + first);
  EXPECT_THAT(site.Carma({"history", second}).out, HasSubstr("--memory 1.0G -> 3.0G"));
  EXPECT_EQ(site.Carma({"edit", second, "--begin", "now"}).code, 0);
  gated.Open();
  const api::TaskView ended = site.Await(waits);
  EXPECT_EQ(ended.state, "succeeded");
  EXPECT_EQ(ended.predicted_mib, 3072)
      << "estimated again, some time after the edit or the restart";
  EXPECT_EQ(site.Carma({"edit", second, "--time", "1h"}).code, 1);
}

}  // namespace
}  // namespace carma::system_test
