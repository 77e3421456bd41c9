// Tests ordinary tasks from submission to end, as users see them through the `carma` command.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/process_id.h"
#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class Lifecycle : public ::testing::Test {
 protected:
  void SetUp() override { site.Start(); }
  // A command that rings the bell and then runs until it is stopped.
  Words Stays(const Bell& bell, const std::string& word = "up") const {
    return {"--", "/bin/sh", "-c", "echo " + word + " > " + bell.path() + "; exec sleep 10000"};
  }
  std::string WriteFile(const std::string& name, const std::string& text) const {
    const std::string path = site.out_dir() + "/" + name;
    WriteText(path, text, 0755);
    return path;
  }
  static bool Lives(const api::TaskView& task) {
    return task.pid && base::ReadProcessStat(static_cast<pid_t>(*task.pid)) &&
           base::ReadProcessStat(static_cast<pid_t>(*task.pid))->state != 'Z';
  }

  Site site;
};

// carmad reads the GPUs for the first time before its engine opens. A task must be able to start
// based on that reading, because the next one comes 60 s later.
TEST(FirstTask, DoesNotWaitForTheSecondReading) {
  Site site({.time_scale = 1,
             .settings = {{"monitor.sample_period", "\"60s\""}, {"monitor.window", "\"120s\""}}});
  site.Start();
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"}), std::chrono::seconds(30)).state,
            "succeeded");
}

TEST_F(Lifecycle, ACommandRunsAndEveryVerbShowsIt) {
  const std::uint64_t id = site.Submit({"--job-name", "greet", "--", "/bin/echo", "hello there"});
  const std::string number = std::to_string(id);
  const Ran waited = site.Carma({"wait", number});
  EXPECT_EQ(waited.code, 0) << waited.Text();
  EXPECT_THAT(waited.out, HasSubstr("succeeded"));
  EXPECT_THAT(site.Carma({"logs", number}).out, HasSubstr("hello there\n"));
  EXPECT_EQ(site.Output(id), "hello there\n");
  EXPECT_THAT(site.Carma({"show", number}).out, AllOf(HasSubstr("greet"), HasSubstr("succeeded")));
  EXPECT_THAT(site.Carma({"list"}).out, Not(HasSubstr("greet"))) << "only unfinished tasks";
  EXPECT_THAT(site.Carma({"list", "--all"}).out, HasSubstr("greet"));
  EXPECT_THAT(site.Carma({"history", number}).out,
              AllOf(HasSubstr("submitted"), HasSubstr("running"), HasSubstr("succeeded")));
  EXPECT_THAT(site.Carma({"gpus"}).out, HasSubstr("A100"));
  EXPECT_THAT(site.Carma({"status"}).out, HasSubstr("magm"));
  for (const Words& verb : std::vector<Words>{{"show", number},
                                              {"list", "--all"},
                                              {"gpus"},
                                              {"status"},
                                              {"history", number},
                                              {"explain", number}}) {
    Words args = verb;
    args.emplace_back("--json");
    const Ran ran = site.Carma(args);
    EXPECT_TRUE(ran.Ok() && base::ParseJson(ran.out)) << verb[0] << ": " << ran.Text();
  }
  site.ExpectIdle();
}

TEST_F(Lifecycle, WaitReturnsTheTasksOwnExitCode) {
  const struct {
    const char* what;
    Words command;
    int code;
    const char* state;
  } kCases[] = {
      {"success", {"true"}, 0, "succeeded"},
      {"failure", {"/bin/sh", "-c", "exit 3"}, 3, "failed"},
      {"the highest exit code", {"/bin/sh", "-c", "exit 255"}, 255, "failed"},
      {"a signal", {"/bin/sh", "-c", "kill -9 $$"}, 128 + SIGKILL, "failed"},
      {"no such program", {"/no/such/program"}, 1, "failed"},
  };
  for (const auto& each : kCases) {
    Words args = {"--no-check", "--"};
    args.insert(args.end(), each.command.begin(), each.command.end());
    const std::uint64_t id = site.Submit(args);
    EXPECT_EQ(site.Carma({"wait", std::to_string(id)}).code, each.code) << each.what;
    EXPECT_EQ(site.Task(id).state, each.state) << each.what;
  }
}

TEST_F(Lifecycle, SubmitCanWaitAndThenGivesTheTasksCode) {
  EXPECT_EQ(site.Carma({"submit", "--wait", "--", "/bin/sh", "-c", "exit 7"}).code, 7);
}

TEST_F(Lifecycle, AScriptsDirectivesCountAndTheCommandLineWins) {
  const std::string script = WriteFile("train.sh",
                                       "#!/bin/sh\n"
                                       "#CARMA --job-name from-script --gpus 2\n"
                                       "#SBATCH --time=10\n"
                                       "#CARMA --output out-%x-%j.txt --comment 'two words'\n"
                                       "echo args: \"$@\"\n"
                                       "echo gpus: $CUDA_VISIBLE_DEVICES\n");
  const std::uint64_t id = site.Submit({"--job-name", "mine", script, "one", "two three"});
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "succeeded") << site.Output(id);
  EXPECT_EQ(task.name, "mine");
  EXPECT_EQ(task.gpus, 2);
  EXPECT_EQ(task.comment, "two words");
  EXPECT_EQ(task.time_limit_s, 600.0);
  EXPECT_EQ(task.stdout_path, site.out_dir() + "/out-mine-" + std::to_string(id) + ".txt");
  EXPECT_EQ(site.Output(id), "args: one two three\ngpus: " + task.gpu_uuids.at(0) + "," +
                                 task.gpu_uuids.at(1) + "\n");
}

// Submits a Slurm script that has an array, writes output to a new folder, and uses srun and
// Slurm's variables.
TEST_F(Lifecycle, AScriptForSlurmRunsAsItWouldThere) {
  const std::string script =
      WriteFile("job.sh",
                "#!/bin/bash\n"
                "#SBATCH --job-name=sweep\n"
                "#SBATCH --array=3-4\n"
                "#SBATCH --ntasks=2\n"
                "#SBATCH --output=logs/%x/%A_%03a.out\n"
                "echo index $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT\n"
                "srun -n 1 sh -c 'echo step of $SLURM_ARRAY_JOB_ID'\n"
                "srun sh -c 'exit $SLURM_PROCID'\n");
  const Ran submitted = site.Carma({"submit", "--parsable", script});
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const std::uint64_t first = std::stoull(submitted.out);
  for (const std::uint64_t id : {first, first + 1}) {
    const api::TaskView task = site.Await(id);
    EXPECT_EQ(task.state, "failed") << "srun's second copy exits with 1";
    EXPECT_EQ(task.stdout_path,
              fmt::format("{}/logs/sweep/{}_00{}.out", site.out_dir(), first, 3 + id - first));
    EXPECT_EQ(site.Output(id), fmt::format("index {} of 2\nstep of {}\n", 3 + id - first, first));
  }
}

TEST_F(Lifecycle, AScriptMayComeOnStandardInput) {
  const std::uint64_t id = site.Submit({"-"}, {.input = "#!/bin/sh\n#CARMA -J piped\n"
                                                        "echo from stdin\n"});
  EXPECT_EQ(site.Await(id).name, "piped");
  EXPECT_EQ(site.Output(id), "from stdin\n");
}

TEST_F(Lifecycle, BothFormsOfRadFilesRun) {
  const std::string env = site.out_dir() + "/env";
  std::filesystem::create_directories(env + "/bin");
  const std::string named = WriteFile("named.rad",
                                      "# a comment\n"
                                      "/bin/echo 'named form'\n"
                                      "batch_size: 32\n"
                                      "policy: exclusive\n");
  const std::string positional = WriteFile("positional.rad",
                                           "comment\n"
                                           "conda activate " +
                                               env +
                                               "\n"
                                               "/usr/bin/env python=3\n"
                                               "model.txt\ncifar10\n128\nexclusive\n2\n"
                                               "9000\n9500\n9600\n16000\n");
  const std::uint64_t first = site.Submit({named});
  const std::uint64_t second = site.Submit({positional});
  EXPECT_EQ(site.Await(first).state, "succeeded") << site.Output(first);
  EXPECT_TRUE(site.Task(first).exclusive);
  EXPECT_EQ(site.Output(first), "named form\n");
  const api::TaskView task = site.Await(second);
  EXPECT_EQ(task.state, "succeeded") << site.Output(second);
  EXPECT_EQ(task.gpus, 2);
  EXPECT_EQ(task.predicted_mib, 9000);
  EXPECT_THAT(site.Output(second), HasSubstr("CONDA_PREFIX=" + env + "\n"));
}

TEST_F(Lifecycle, TheEnvironmentNamesGpusByUuidAndTheTask) {
  const std::uint64_t id =
      site.Submit({"--gpus", "2", "--export", "NONE,GREETING=hi there", "--", "/usr/bin/env"},
                  {.environment = {{"SECRET", "not exported"}}});
  const api::TaskView task = site.Await(id);
  const std::string env = site.Output(id);
  std::set<std::string> uuids;
  for (const api::GpuView& gpu : site.Gpus()) uuids.insert(gpu.uuid);
  EXPECT_EQ(std::set<std::string>(task.gpu_uuids.begin(), task.gpu_uuids.end()), uuids);
  EXPECT_THAT(env,
              AllOf(HasSubstr("CUDA_VISIBLE_DEVICES=" + base::Join(task.gpu_uuids, ",") + "\n"),
                    HasSubstr("CUDA_DEVICE_ORDER=PCI_BUS_ID\n"), HasSubstr("GREETING=hi there\n"),
                    HasSubstr("CARMA_TASK_ID=" + std::to_string(id) + "\n")));
  EXPECT_THAT(env, Not(HasSubstr("SECRET")));
}

TEST_F(Lifecycle, AWaitingTaskIsCancelledWithoutEverRunning) {
  const std::uint64_t id = site.Submit({"--hold", "--", "/bin/touch", site.out_dir() + "/ran"});
  site.ExpectWaits(id, "Held");
  EXPECT_TRUE(site.Carma({"cancel", std::to_string(id)}).Ok());
  EXPECT_EQ(site.Await(id).state, "cancelled");
  EXPECT_EQ(site.Task(id).attempt, 0);
  EXPECT_NE(::access((site.out_dir() + "/ran").c_str(), F_OK), 0);
  EXPECT_EQ(site.Carma({"cancel", std::to_string(id)}).code, 1) << "it has ended already";
}

TEST_F(Lifecycle, ARunningTaskIsCancelledWithItsWholeGroup) {
  Bell bell(site.out_dir() + "/bell");
  // The command and the child that it starts in the background ignore SIGTERM.
  const std::uint64_t id =
      site.Submit({"--", "/bin/sh", "-c",
                   "trap '' TERM; sleep 10000 & echo $! > " + bell.path() + "; wait; wait; wait"});
  const std::optional<std::string> child = bell.Hear();
  ASSERT_TRUE(child);
  const api::TaskView running = site.AwaitState(id, "running");
  ASSERT_TRUE(Lives(running));
  const Ran cancelled = site.Carma({"cancel", std::to_string(id)});
  EXPECT_TRUE(cancelled.Ok()) << cancelled.Text();
  EXPECT_EQ(site.Await(id).state, "cancelled");
  EXPECT_FALSE(Lives(running));
  EXPECT_FALSE(base::ReadProcessStat(std::stoi(*child)) &&
               base::ReadProcessStat(std::stoi(*child))->state != 'Z');
  site.ExpectIdle();
}

TEST_F(Lifecycle, HoldAndReleaseKeepATaskFromStarting) {
  const std::uint64_t id = site.Submit({"--hold", "--", "/bin/true"});
  const std::string number = std::to_string(id);
  EXPECT_TRUE(site.Carma({"release", number}).Ok());
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_EQ(site.Carma({"hold", number}).code, 1) << "only waiting tasks can be held";
}

TEST_F(Lifecycle, RequeueRunsATaskAgainWhetherItRunsOrHasEnded) {
  Bell bell(site.out_dir() + "/bell");
  const std::uint64_t id = site.Submit(
      {"--", "/bin/sh", "-c",
       "echo $CARMA_ATTEMPT > " + bell.path() + "; [ $CARMA_ATTEMPT != 1 ] || exec sleep 10000"});
  EXPECT_EQ(bell.Hear(), "1");
  EXPECT_TRUE(site.Carma({"requeue", std::to_string(id)}).Ok());
  EXPECT_EQ(bell.Hear(), "2");
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_TRUE(site.Carma({"requeue", std::to_string(id)}).Ok());
  EXPECT_EQ(bell.Hear(), "3");
  EXPECT_EQ(site.Await(id).state, "succeeded");
  EXPECT_EQ(site.Task(id).attempt, 3);
}

TEST_F(Lifecycle, AnEndedTaskIsRequeuedOnlyWithinItsUsersLimits) {
  const std::uint64_t id = site.Submit({"--", "/bin/true"});
  EXPECT_EQ(site.Await(id).state, "succeeded");
  site.Set("limits.rules", "[\"user=" + site.Task(id).user + " queued=1\"]");
  site.Restart(SIGTERM);
  site.Submit({"--hold", "--", "/bin/true"});
  const Ran requeued = site.Carma({"requeue", std::to_string(id)});
  EXPECT_NE(requeued.code, 0);
  EXPECT_THAT(requeued.err, HasSubstr("is refused: 1 of 1 allowed"));
  const Ran tried = site.Carma({"submit", "--check", "--", "/bin/true"});
  EXPECT_EQ(tried.code, 2);
  EXPECT_THAT(tried.err, HasSubstr("is refused: 1 of 1 allowed"));
}

TEST_F(Lifecycle, DependenciesFollowHowTasksEnd) {
  const std::uint64_t good = site.Submit({"--hold", "--", "/bin/true"});
  const std::uint64_t bad = site.Submit({"--hold", "--", "/bin/false"});
  const auto after = [&](const std::string& kind, std::uint64_t id) {
    return site.Submit({"--dependency", kind + ":" + std::to_string(id), "--", "/bin/true"});
  };
  const std::uint64_t ok_good = after("afterok", good), notok_good = after("afternotok", good),
                      ok_bad = after("afterok", bad), notok_bad = after("afternotok", bad),
                      any_bad = after("afterany", bad), chained = after("afterok", ok_good);
  site.ExpectWaits(ok_good, "Dependency");
  site.Carma({"release", std::to_string(good), std::to_string(bad)});
  EXPECT_EQ(site.Await(ok_good).state, "succeeded");
  EXPECT_EQ(site.Await(notok_good).state, "cancelled");
  EXPECT_EQ(site.Await(ok_bad).state, "cancelled");
  EXPECT_EQ(site.Task(ok_bad).reason, "DependencyNeverMet");
  EXPECT_EQ(site.Await(notok_bad).state, "succeeded");
  EXPECT_EQ(site.Await(any_bad).state, "succeeded");
  EXPECT_EQ(site.Await(chained).state, "succeeded");
  EXPECT_EQ(site.Await(after("afterok", good)).state, "succeeded") << "it ended long ago";
}

TEST_F(Lifecycle, AnArrayIsATaskPerIndex) {
  const std::uint64_t first = site.Submit({"--array", "3,5-7:2", "--output", "a-%a.txt", "--",
                                           "/bin/sh", "-c", "echo index $CARMA_ARRAY_INDEX"});
  const std::int64_t kIndices[] = {3, 5, 7};
  for (std::size_t i = 0; i < std::size(kIndices); ++i) {
    const api::TaskView task = site.Await(first + i);
    EXPECT_EQ(task.state, "succeeded");
    EXPECT_EQ(task.array_id, first);
    EXPECT_EQ(task.array_index, kIndices[i]);
    EXPECT_EQ(ReadText(site.out_dir() + "/a-" + std::to_string(kIndices[i]) + ".txt"),
              "index " + std::to_string(kIndices[i]) + "\n");
  }
}

TEST_F(Lifecycle, ATimeLimitEndsATask) {
  const std::uint64_t id = site.Submit({"--time", "100s", "--", "sleep", "10000"});
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "timed_out");
  EXPECT_EQ(task.reason, "TimeLimit");
  EXPECT_GE(*task.ended_ms - *task.launched_ms, 100'000) << "in the server's own time";
  EXPECT_EQ(site.Carma({"wait", std::to_string(id)}).code, 128 + SIGTERM);
}

TEST_F(Lifecycle, ATaskStartsOnlyAtItsBeginTime) {
  const std::uint64_t later = site.Submit({"--begin", "now+2hours", "--", "/bin/true"});
  site.ExpectWaits(later, "BeginTime");
  const std::uint64_t id = site.Submit({"--begin", "now+20", "--", "/bin/true"});
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "succeeded");
  EXPECT_EQ(site.Task(later).state, "queued");
}

TEST_F(Lifecycle, AHigherPriorityGoesFirst) {
  site.Set("policy.backfill", "1");
  site.Stop(SIGTERM);
  site.Start();
  Bell bell(site.out_dir() + "/bell");
  Words blocker = Stays(bell, "blocker");
  blocker.insert(blocker.begin(), {"--gpus", "2", "--exclusive"});
  const std::uint64_t first = site.Submit(blocker);
  ASSERT_EQ(bell.Hear(), "blocker");
  const auto queue = [&](const std::string& name, const std::string& priority) {
    return site.Submit({"--gpus", "2", "--exclusive", "--priority", priority, "--", "/bin/sh", "-c",
                        "echo " + name + " > " + bell.path()});
  };
  const std::uint64_t low = queue("low", "-5");
  queue("usual", "0");
  const std::uint64_t raised = queue("raised", "-7");
  EXPECT_TRUE(site.Carma({"priority", "9", std::to_string(raised)}).Ok() ||
              site.Carma({"priority", std::to_string(raised), "9"}).Ok());
  site.ExpectWaits(low, "Priority");
  EXPECT_THAT(site.Carma({"explain", std::to_string(low)}).out, HasSubstr("Priority"));
  site.Carma({"cancel", std::to_string(first)});
  EXPECT_EQ(bell.Hear(), "raised");
  EXPECT_EQ(bell.Hear(), "usual");
  EXPECT_EQ(bell.Hear(), "low");
}

TEST_F(Lifecycle, ADryRunChangesNothing) {
  const Ran fits = site.Carma({"submit", "--check", "--gpu-mem", "10G", "--", "/bin/true"});
  EXPECT_EQ(fits.code, 0) << fits.Text();
  const Ran never = site.Carma({"submit", "--check", "--gpu-mem", "100G", "--", "/bin/true"});
  EXPECT_EQ(never.code, 1) << never.Text();
  EXPECT_THAT(never.err, HasSubstr("never"));
  const Ran wrong = site.Carma({"submit", "--check", "--gpus", "none", "--", "/bin/true"});
  EXPECT_EQ(wrong.code, 2) << wrong.Text();
  EXPECT_EQ(site.Status().task_counts.size(), 0U);
}

TEST_F(Lifecycle, RefusesATaskThatCanNeverFit) {
  for (const Words& wish : std::vector<Words>{{"--gpu-mem", "100G"}, {"--gpus", "3"}}) {
    Words args = {"submit"};
    args.insert(args.end(), wish.begin(), wish.end());
    args.insert(args.end(), {"--", "/bin/true"});
    const Ran ran = site.Carma(args);
    EXPECT_EQ(ran.code, 1) << ran.Text();
    EXPECT_THAT(ran.err, HasSubstr("never"));
  }
}

TEST_F(Lifecycle, ADrainedGpuTakesNoTaskUntilItIsResumed) {
  EXPECT_TRUE(site.Carma({"drain", "0,1", "--reason", "fan noise"}).Ok());
  EXPECT_THAT(site.Carma({"gpus"}).out, HasSubstr("drain"));
  const std::uint64_t id = site.Submit({"--", "/bin/true"});
  site.ExpectWaits(id, "Draining");
  const Ran why = site.Carma({"explain", std::to_string(id)});
  EXPECT_THAT(why.out, AllOf(HasSubstr("Draining"), HasSubstr("fan noise")));
  // The GPU stays drained after restarts.
  site.Restart(SIGKILL);
  EXPECT_EQ(site.Task(id).state, "queued");
  EXPECT_TRUE(site.Carma({"resume", "1"}).Ok());
  EXPECT_THAT(site.Await(id).gpu_indices, ElementsAre(1));
}

TEST_F(Lifecycle, LogsFollowATaskToItsEnd) {
  Bell bell(site.out_dir() + "/bell");
  const std::string gate = site.out_dir() + "/gate";
  Bell gate_pipe(gate);
  const std::uint64_t id =
      site.Submit({"--", "/bin/sh", "-c",
                   "echo first; echo up > " + bell.path() + "; read go < " + gate + "; echo last"});
  ASSERT_EQ(bell.Hear(), "up");
  Child follow = site.StartCarma({"logs", "-f", std::to_string(id)});
  EXPECT_TRUE(Eventually([&] { return follow.Out().find("first") != std::string::npos; }));
  WriteText(gate, "go\n", 0666);
  const Ran ran = follow.Wait();
  EXPECT_FALSE(ran.late);
  EXPECT_EQ(ran.out, "first\nlast\n");
}

// ---- several users ----

class SeveralUsers : public Lifecycle {
 protected:
  void SetUp() override {
    if (!IsRoot()) GTEST_SKIP() << "needs root";
    Lifecycle::SetUp();
  }
  RunOptions Other() const { return {.uid = OtherUser()}; }
};

TEST_F(SeveralUsers, ATaskRunsAsItsSubmitterWithItsGroups) {
  const std::uint64_t id =
      site.Submit({"--", "/bin/sh", "-c", "id -u; id -G; umask; touch made"}, Other());
  ASSERT_EQ(site.Await(id).state, "succeeded") << site.Output(id);
  const passwd* user = ::getpwuid(OtherUser());
  std::vector<gid_t> groups(256);
  int count = static_cast<int>(groups.size());
  ::getgrouplist(user->pw_name, user->pw_gid, groups.data(), &count);
  groups.resize(static_cast<std::size_t>(count));
  std::set<std::string> expected, seen;
  for (const gid_t group : groups) expected.insert(std::to_string(group));
  const std::vector<std::string> lines = [&] {
    const std::string text = site.Output(id);
    std::vector<std::string> list;
    for (std::string_view line : base::Split(text, '\n')) list.emplace_back(line);
    return list;
  }();
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines[0], std::to_string(OtherUser()));
  for (std::string_view group : base::Split(lines[1], ' ')) seen.emplace(group);
  EXPECT_EQ(seen, expected);
  struct stat made {
  }, log{};
  ::stat((site.out_dir() + "/made").c_str(), &made);
  ::stat(site.Task(id).stdout_path.c_str(), &log);
  EXPECT_EQ(made.st_uid, OtherUser());
  EXPECT_EQ(log.st_uid, OtherUser());
}

TEST_F(SeveralUsers, AUserSeesButCannotChangeOtherUsersTasks) {
  const std::uint64_t mine = site.Submit({"--hold", "--job-name", "mine", "--", "/bin/true"});
  const std::string number = std::to_string(mine);
  EXPECT_THAT(site.Carma({"list"}, Other()).out, HasSubstr("mine"));
  EXPECT_TRUE(site.Carma({"show", number}, Other()).Ok());
  EXPECT_TRUE(site.Carma({"explain", number}, Other()).Ok());
  for (const char* verb : {"cancel", "hold", "release", "requeue", "redo"}) {
    const Ran ran = site.Carma({verb, number}, Other());
    EXPECT_EQ(ran.code, 1) << verb << ": " << ran.Text();
    EXPECT_THAT(ran.err, HasSubstr("belongs to root")) << verb;
  }
  EXPECT_EQ(site.Carma({"drain", "0"}, Other()).code, 1);
  EXPECT_EQ(site.Task(mine).state, "queued");
  EXPECT_EQ(site.Gpus().at(0).state, "idle");
  // Root may change other users' tasks.
  const std::uint64_t theirs = site.Submit({"--hold", "--", "/bin/true"}, Other());
  EXPECT_TRUE(site.Carma({"cancel", std::to_string(theirs)}).Ok());
}

TEST_F(SeveralUsers, UsersWithoutPermissionMayOnlyLook) {
  site.Stop(SIGTERM);
  site.Set("daemon.allow_users", "[\"nobody-else\"]");
  site.Set("daemon.socket_mode", "\"0666\"");
  site.Set("daemon.socket_group", "\"tty\"");
  site.Start();
  const Ran refused = site.Carma({"submit", "--", "/bin/true"}, Other());
  EXPECT_EQ(refused.code, 1) << refused.Text();
  EXPECT_THAT(refused.err, HasSubstr("has read-only access to this server"));
  EXPECT_TRUE(site.Carma({"list"}, Other()).Ok());
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
  struct stat socket {};
  ASSERT_EQ(::stat(site.socket().c_str(), &socket), 0);
  EXPECT_EQ(socket.st_gid, ::getgrnam("tty")->gr_gid);
}

TEST_F(SeveralUsers, AForkBombLeavesOtherUsersTheirProcesses) {
  site.Stop(SIGTERM);
  site.Set("task.max_processes", "40");
  site.Start();
  // The limit covers all of a user's processes on this machine, so no other test may run as this
  // user.
  const RunOptions games{.uid = ::getpwnam("games")->pw_uid};
  const std::uint64_t bomb =
      site.Submit({"--", "/bin/sh", "-c",
                   "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; exec sleep 1000"},
                  games);
  const api::TaskView task = site.Await(bomb);
  EXPECT_EQ(task.state, "failed") << site.Output(bomb);
  EXPECT_THAT(site.Output(bomb), HasSubstr("fork"));
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"})).state, "succeeded");
  EXPECT_EQ(site.Await(site.Submit({"--", "/bin/true"}, games)).state, "succeeded");
}

TEST_F(SeveralUsers, OutputIsAsPrivateAsTheSubmittersUmask) {
  const auto mode = [&](std::uint64_t id) {
    struct stat log {};
    ::stat(site.Await(id).stdout_path.c_str(), &log);
    return log.st_mode & 0777U;
  };
  const mode_t before = ::umask(077);
  const std::uint64_t secret = site.Submit({"--", "/bin/sh", "-c", "umask"}, Other());
  ::umask(before);
  EXPECT_EQ(mode(secret), 0600U);
  EXPECT_EQ(site.Output(secret), "0077\n");
  const auto other = cli::SubmitTasks(site.client(), {base::DumpJson({{"command", {"/bin/true"}},
                                                                      {"workdir", site.out_dir()},
                                                                      {"environment", {}}})});
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(mode(other->value.first), 0644U) << "the default umask is 022";
}

TEST_F(SeveralUsers, ATaskThatAnAdministratorRepeatsRunsAsItsOwner) {
  const std::string secret = site.folder() / "private";
  WriteText(secret, "of root", 0600);
  const std::uint64_t first =
      site.Submit({"--output", "redo.%j", "--", "/bin/sh", "-c", "id -u; id -g; id -G"}, Other());
  ASSERT_EQ(site.Await(first).state, "succeeded");
  // A user who can guess the next task number must not be able to use it to reach one of root's
  // files.
  const std::uint64_t trap = first + 2;
  ASSERT_EQ(::symlink(secret.c_str(), fmt::format("{}/redo.{}", site.out_dir(), trap).c_str()), 0);
  const Ran ran = site.Carma({"redo", "--parsable", fmt::format("{}", first)});
  ASSERT_TRUE(ran.Ok()) << ran.Text();
  const std::uint64_t again = first + 1;
  const api::TaskView task = site.Await(again);
  EXPECT_EQ(task.state, "succeeded") << task.reason_text;
  EXPECT_EQ(task.user, site.Task(first).user);
  EXPECT_EQ(site.Output(again), site.Output(first)) << "another user, or other groups";
  struct stat log {};
  ASSERT_EQ(::stat(task.stdout_path.c_str(), &log), 0);
  EXPECT_EQ(log.st_uid, OtherUser());
  EXPECT_THAT(site.History(again).at(0).text,
              HasSubstr(fmt::format("task {} again, requested by root", first)));
  ASSERT_TRUE(site.Carma({"redo", fmt::format("{}", first)}).Ok());
  EXPECT_EQ(site.Await(trap).state, "failed");
  EXPECT_EQ(ReadText(secret), "of root");
}

TEST_F(SeveralUsers, OnlyAnAdministratorRaisesAPriority) {
  const std::uint64_t id = site.Submit({"--hold", "--", "/bin/true"}, Other());
  EXPECT_FALSE(site.Carma({"submit", "--priority", "5", "--", "/bin/true"}, Other()).Ok());
  const auto raised = cli::SetPriority(site.client(), id, 5);
  EXPECT_TRUE(raised) << raised.error().message;
}

TEST(MemoryProtection, ATaskDoesNotInheritTheDaemons) {
  const Ran lowered = RunProgram({"/bin/sh", "-c", "echo -50 > /proc/self/oom_score_adj"});
  if (!lowered.Ok()) GTEST_SKIP() << "oom_score_adj cannot be lowered here: " << lowered.err;
  Site site;
  const std::string programs = site.folder() / "programs";
  std::filesystem::create_directory(programs);
  WriteText(programs + "/carmad",
            fmt::format("#!/bin/sh\necho -50 > /proc/self/oom_score_adj\nexec {} \"$@\"\n",
                        Program("carmad")),
            0755);
  site.UsePrograms(programs);
  site.Start();
  const std::uint64_t id = site.Submit(
      {"--", "/bin/sh", "-c", "cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj"});
  site.Await(id);
  EXPECT_EQ(site.Output(id), "0\n-50\n") << "the task's value, then its shim's";
  site.UsePrograms(base::ExecutableDir());
}

TEST_F(SeveralUsers, ATaskCannotWriteWhereItsSubmitterCannot) {
  const std::string closed = site.folder() / "closed";
  ::mkdir(closed.c_str(), 0700);
  const std::uint64_t id =
      site.Submit({"--no-check", "--output", closed + "/log.txt", "--", "/bin/true"}, Other());
  const api::TaskView task = site.Await(id);
  EXPECT_EQ(task.state, "failed");
  EXPECT_THAT(task.reason_text, HasSubstr("closed/log.txt"));
}

}  // namespace
}  // namespace carma::system_test
