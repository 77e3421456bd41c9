// Tests `carma pilot`, a user's own CARMA on the GPUs of a Slurm job, with a database that outlives
// the job.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "base/json.h"
#include "base/process_id.h"
#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Pilot : public ::testing::Test {
 protected:
  Pilot() {
    std::filesystem::create_directory(home());
    ::chmod(home().c_str(), 0777);
  }

  std::string home() const { return site.folder() / "home"; }
  // The environment of a Slurm job with these GPUs.
  RunOptions Job(const std::string& job, const std::string& gpus) const {
    RunOptions options;
    options.environment = {{"SLURM_JOB_ID", job},
                           {"SLURMD_NODENAME", "n0"},
                           {"CUDA_VISIBLE_DEVICES", gpus},
                           {"HOME", home()},
                           {"TMPDIR", site.folder().path()},
                           {"XDG_RUNTIME_DIR", ""},
                           {"XDG_STATE_HOME", ""},
                           {"CARMA_SIMULATION_STATE", site.gpus_file()},
                           {"CARMA_MONITOR_NVML_LIBRARY", Program("libcarma-simgpu.so")},
                           {"CARMA_COLLOCATION_METHOD", "streams"},
                           {"CARMA_MONITOR_SAMPLE_PERIOD", "5s"},
                           {"CARMA_MONITOR_WINDOW", "20s"},
                           {"CARMA_POLICY_STALE_AFTER", "1d"},
                           {"CARMA_TASK_KILL_GRACE", "2s"}};
    options.cwd = site.out_dir();
    return options;
  }
  static Child Start(Words words, const RunOptions& options) {
    words.insert(words.begin(), {Program("carma"), "pilot"});
    return Child::Start(words, options);
  }
  static Ran Run(Words words, const RunOptions& options) {
    return Start(std::move(words), options).Wait();
  }
  // Starts a pilot and returns once it accepts requests.
  static Child Serve(Words words, const RunOptions& options) {
    Child pilot = Start(std::move(words), options);
    EXPECT_TRUE(Eventually([&] { return pilot.Out().find("CARMA_SOCKET=") != std::string::npos; }))
        << pilot.Err();
    return pilot;
  }
  // Runs `carma …` inside the job, where it finds the pilot without an option.
  static Ran Carma(Words words, const RunOptions& options) {
    words.insert(words.begin(), Program("carma"));
    return RunProgram(words, options);
  }
  // Writes a script of submit commands for the pilot to run.
  std::string Script(const std::string& name, const std::string& lines) const {
    const std::string path = site.folder() / name;
    WriteText(path, "#!/bin/sh\nset -e\ncarma() { " + Program("carma") + " \"$@\"; }\n" + lines,
              0755);
    return path;
  }
  std::set<std::string> Lines(const std::string& name) const {
    std::istringstream text(ReadText(site.out_dir() + "/" + name));
    std::set<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.insert(line);
    return lines;
  }
  static api::TaskView Task(std::uint64_t id, const RunOptions& options) {
    const Ran shown = Carma({"show", "--json", fmt::format("{}", id)}, options);
    const auto json = base::ParseJson(shown.out);
    if (!json) return {};
    const auto view = api::FromJson<api::TaskView>(json->is_array() ? json->at(0) : *json);
    return view ? *view : api::TaskView{};
  }

  Site site{{.shape = "4xA100-40GB"}};
};

constexpr char kTellsItsGpuAndCalls[] =
    R"(sh -c 'echo $CUDA_VISIBLE_DEVICES >> $0; echo > $0.meet')";
constexpr char kTellsItsGpuAndIsCalled[] =
    R"(sh -c 'echo $CUDA_VISIBLE_DEVICES >> $0; read line < $0.meet')";

TEST_F(Pilot, TwoPilotsOnOneServerUseSeparateGpus) {
  // Tasks come in pairs: the first task of a pair ends once the second has started.
  const auto submit = [&](const std::string& file) {
    const std::string one_by_one = "carma submit --exclusive -o /dev/null -- ";
    return Script(file + ".sh",
                  fmt::format("mkfifo {0}.meet; for i in 1 2 3; do {1} {2} {0}; {1} {3} {0}; done",
                              site.out_dir() + "/" + file, one_by_one, kTellsItsGpuAndCalls,
                              kTellsItsGpuAndIsCalled));
  };
  Child first = Start({"--json", "--name", "a", submit("a")}, Job("11", "0,1"));
  Child second = Start({"--json", "--name", "b", submit("b")}, Job("12", "2,3"));
  const Ran a = first.Wait(), b = second.Wait();
  ASSERT_EQ(a.code, 0) << a.Text();
  ASSERT_EQ(b.code, 0) << b.Text();
  const auto gpus = [](const Ran& ran) {
    const auto json = base::ParseJson(ran.out.substr(0, ran.out.find('\n')));
    return json ? json->at("gpus").get<std::set<std::string>>() : std::set<std::string>{};
  };
  EXPECT_EQ(gpus(a).size(), 2U);
  EXPECT_EQ(gpus(b).size(), 2U);
  EXPECT_NE(*gpus(a).begin(), *gpus(b).begin());
  EXPECT_EQ(Lines("a"), gpus(a)) << "exactly these two GPUs are used";
  EXPECT_EQ(Lines("b"), gpus(b));
}

TEST_F(Pilot, WarnsAboutAGpuThatTheServerLacks) {
  const Ran ran = Run({"--gpus", "0,7", "--until-empty"}, Job("11", "0,1"));
  EXPECT_EQ(ran.code, 0) << ran.Text();
  EXPECT_THAT(ran.out, HasSubstr("serves 1 GPU of "));
  EXPECT_THAT(ran.err, HasSubstr("warning: daemon.gpus names 7, which the driver does not list"));
}

TEST_F(Pilot, IsFoundInItsJobAndOwnsItsName) {
  const RunOptions job = Job("11", "0,1");
  Child pilot = Serve({"--name", "sweep"}, job);
  EXPECT_EQ(Carma({"gpus", "--json"}, job).code, 0);
  const Ran submitted = Carma({"submit", "--parsable", "--", "/bin/true"}, job);
  EXPECT_EQ(submitted.out, "1\n") << submitted.Text();
  const Ran second = Run({"--name", "sweep"}, Job("12", "2,3"));
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, HasSubstr("in use by the pilot of job 11 on "));
  EXPECT_THAT(second.err, HasSubstr("--name"));
  pilot.Signal(SIGTERM);
  const Ran ended = pilot.Wait();
  EXPECT_EQ(ended.code, 0) << ended.Text();
  EXPECT_FALSE(std::filesystem::exists(site.folder() / "carma-11")) << "nothing is left";
}

TEST_F(Pilot, TheNextPilotContinuesAfterAKilledOne) {
  const RunOptions job = Job("11", "0,1");
  Child pilot = Serve({}, job);
  Bell up(site.out_dir() + "/up"), gate(site.out_dir() + "/gate");
  const std::string wait = fmt::format("echo up > {}; read x < {}", up.path(), gate.path());
  ASSERT_EQ(Carma({"submit", "-o", "/dev/null", "--", "/bin/sh", "-c", wait}, job).code, 0);
  ASSERT_EQ(Carma({"submit", "-o", "/dev/null", "-d", "afterok:1", "--", "/bin/true"}, job).code,
            0);
  ASSERT_EQ(up.Hear(), "up");
  pilot.Signal(SIGKILL);
  pilot.Wait();
  Child next = Serve({"--until-empty"}, Job("12", "0,1"));
  EXPECT_EQ(Task(1, Job("12", "")).state, "running") << "its task has continued";
  WriteText(gate.path(), "go\n");
  const Ran ended = next.Wait();
  EXPECT_EQ(ended.code, 0) << ended.Text();
  Child last = Serve({}, Job("13", "0,1"));
  for (const std::uint64_t id : {1, 2}) {
    EXPECT_EQ(Task(id, Job("13", "")).state, "succeeded");
    EXPECT_EQ(Task(id, Job("13", "")).attempt, 1);
  }
}

TEST_F(Pilot, AKilledDaemonIsStartedAgain) {
  const RunOptions job = Job("11", "0");
  Child pilot = Serve({}, job);
  const auto daemon = [&] {
    const auto status = base::ParseJson(Carma({"status", "--json"}, job).out);
    return status && status->contains("pid") ? status->at("pid").get<pid_t>() : 0;
  };
  const pid_t first = daemon();
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] {
    const pid_t now = daemon();
    return now > 0 && now != first;
  })) << pilot.Err();
  const Ran ran = Carma({"submit", "-W", "-o", "/dev/null", "--", "/bin/true"}, job);
  EXPECT_EQ(ran.code, 0) << ran.Text();
}

TEST_F(Pilot, BeforeTheEndTasksSaveAndTheNextPilotEndsThem) {
  const RunOptions job = Job("11", "0,1");
  Child pilot = Serve({"--notice", "1h"}, job);
  Bell up(site.out_dir() + "/up");
  const std::string saves =
      Script("train.sh", fmt::format("if [ -e saved ]; then echo done > done; exit 0; fi\n"
                                     "sleep 1000 &\ntrap 'touch saved; kill $!; exit 85' USR1\n"
                                     "echo up > {}\nwait\n",
                                     up.path()));
  ASSERT_EQ(Carma({"submit", "-o", "/dev/null", "--checkpoint-signal", "USR1", saves}, job).code,
            0);
  ASSERT_EQ(up.Hear(), "up");
  // The signal that `sbatch --signal=B:USR1@600` sends.
  pilot.Signal(SIGUSR1);
  const Ran ended = pilot.Wait();
  EXPECT_EQ(ended.code, 75) << ended.Text();
  EXPECT_THAT(ended.err, HasSubstr("1 task is waiting for the next pilot named default"));
  const Ran next = Run({"--until-empty"}, Job("12", "2"));
  EXPECT_EQ(next.code, 0) << next.Text();
  EXPECT_EQ(ReadText(site.out_dir() + "/done"), "done\n");
}

TEST_F(Pilot, AtTheEndNothingIsLeftRunningAndNothingIsLost) {
  const RunOptions job = Job("11", "0,1");
  const std::string submit =
      Script("submit.sh",
             "carma submit -o /dev/null --memory 4G -- sleep 1000\n"
             "carma submit -o /dev/null --memory 4G --time 100h -- /bin/true\n");
  const Ran ended = Run({"--for", "6s", "--notice", "1s", submit}, job);
  EXPECT_EQ(ended.code, 75) << ended.Text();
  EXPECT_TRUE(site.SimGpu({"audit"}).Ok());
  Child next = Serve({}, Job("12", "0,1"));
  EXPECT_TRUE(Eventually([&] { return Task(1, Job("12", "")).attempt == 2; }))
      << "it was stopped, and is started again";
  EXPECT_TRUE(Eventually([&] { return Task(2, Job("12", "")).state == "succeeded"; }))
      << "its limit exceeded the previous allocation; this one has no end";
  EXPECT_EQ(Task(2, Job("12", "")).attempt, 1);
}

TEST_F(Pilot, ItsExitCodeShowsUnfinishedWork) {
  const RunOptions job = Job("11", "0,1");
  EXPECT_EQ(Run({"--until-empty"}, job).code, 0);
  const std::string fails = Script("fails.sh", "carma submit -o /dev/null -- /bin/false\n");
  const Ran failed = Run({fails}, job);
  EXPECT_EQ(failed.code, 3) << failed.Text();
  EXPECT_THAT(failed.err, HasSubstr("1 task failed"));
  const std::string holds = Script("holds.sh", "carma submit -o /dev/null -H -- /bin/true\n");
  EXPECT_EQ(Run({"--once", holds}, job).code, 75);
  EXPECT_EQ(Run({"--once", Script("no.sh", "exit 9")}, job).code, 75) << "it is not run again";
  EXPECT_EQ(Run({"--", "/bin/sh", "-c", "exit 9"}, job).code, 9);
}

TEST_F(Pilot, ExplainsWhyItCannotServe) {
  RunOptions without = Job("11", "");
  EXPECT_EQ(Run({}, without).code, 2);
  EXPECT_THAT(Run({}, without).err, HasSubstr("--gres=gpu:2"));
  RunOptions many = Job("11", "0");
  many.environment["SLURM_JOB_NUM_NODES"] = "2";
  EXPECT_THAT(Run({}, many).err, HasSubstr("srun --ntasks-per-node=1"));
  EXPECT_EQ(Run({"--name", "../x"}, Job("11", "0")).code, 2);
  EXPECT_EQ(Run({"--for", "soon"}, Job("11", "0")).code, 2);
}

TEST_F(Pilot, NeedsNoRights) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  const std::string runs = CallAsUser(OtherUser(), [] {
    return std::string(::access(Program("carma").c_str(), X_OK) == 0 ? "yes" : "no");
  });
  if (runs == "no") GTEST_SKIP() << "needs a checkout that other users may enter";
  RunOptions job = Job("11", "2,3");
  job.uid = OtherUser();
  const std::string submit =
      Script("mine.sh",
             fmt::format("carma submit -o /dev/null -- sh -c 'id -u > {}/who'\n", site.out_dir()));
  const Ran ended = Run({submit}, job);
  EXPECT_EQ(ended.code, 0) << ended.Text();
  EXPECT_EQ(ReadText(site.out_dir() + "/who"), fmt::format("{}\n", OtherUser()));
}

}  // namespace
}  // namespace carma::system_test
