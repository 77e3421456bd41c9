// Tests that tasks checkpoint before the machine shuts down, and continue after the next boot.
// carmad recognises a boot by a new service manager process, so the test sets MANAGERPID, as
// systemd does for a user's services.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/process_id.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using Words = std::vector<std::string>;

constexpr int kSteps = 5;

// A task that performs one step for each byte written to its gate and reports the step number. When
// asked to checkpoint, it saves its progress and exits.
constexpr const char* kSaver = R"(import os, signal, sys
path = os.environ["CARMA_CHECKPOINT_DIR"] + "/step"
done = int(open(path).read()) if os.path.exists(path) else 0
def save(*_):
    with open(path, "w") as file:
        file.write(str(done))
    os._exit(85)
signal.signal(signal.SIGUSR1, save)
gate, bell = os.open(sys.argv[1], os.O_RDWR), os.open(sys.argv[2], os.O_RDWR)
os.write(bell, b"up\n")
while done < int(sys.argv[3]):
    os.read(gate, 1)
    done += 1
    os.write(bell, b"%d\n" % done)
)";

class Saver {
 public:
  Saver(const Site& site, const std::string& name, Words options = {})
      : gate_(site.out_dir() + "/" + name + ".gate"), bell_(site.out_dir() + "/" + name + ".bell") {
    Words words = std::move(options);
    for (const std::string& word :
         {std::string("--checkpoint-signal"), std::string("USR1"), std::string("--"),
          std::string("python3"), std::string("-c"), std::string(kSaver), gate_.path(),
          bell_.path(), std::to_string(kSteps)})
      words.push_back(word);
    id = site.Submit(words);
  }
  void Step() const { WriteText(gate_.path(), "."); }
  std::string Hear() { return bell_.Hear().value_or("nothing"); }

  std::uint64_t id = 0;

 private:
  Bell gate_, bell_;
};

class Shutdown : public ::testing::Test {
 protected:
  Shutdown() {
    site.Set("task.kill_grace", "\"1s\"");
    std::filesystem::create_directory(stand_in());
    WriteText(stand_in() + "/systemctl", "#!/bin/sh\n[ \"$*\" = \"$EXPECTED\" ] && cat \"$JOB\"\n",
              0755);
    WriteText(job_file(), "\n");
  }
  std::string stand_in() const { return site.folder() / "stand-in"; }
  std::string job_file() const { return site.folder() / "job"; }

  // Starts carmad as if the machine had rebooted.
  void Boot() {
    manager_ = Child::Start({"/bin/sleep", "100000"});
    Start();
  }
  void Start() {
    site.Start(true, {.environment = {{"MANAGERPID", std::to_string(manager_.pid())}}});
  }
  void PowerOff(const std::vector<std::uint64_t>& running = {}) {
    std::map<pid_t, Watched> processes;  // all are watched first, because one may stop another
    for (const std::uint64_t id : running) {
      const auto pid = static_cast<pid_t>(site.Task(id).pid.value_or(0));
      const auto process = base::ReadProcessStat(pid);
      ASSERT_TRUE(process) << id;
      for (const pid_t each : {process->parent, pid}) processes.try_emplace(each, each);
    }
    site.Stop(SIGKILL);
    for (const auto& [pid, process] : processes) {
      ::kill(pid, SIGKILL);
      ASSERT_TRUE(process.Ends());
    }
  }
  // Runs the ExecStop command of carmad-shutdown.service.
  Child StartAtShutdown(Words arguments = {}) const {
    std::string asked = arguments.empty() ? "" : arguments.front() + " ";
    asked += "show --property=Job --value shutdown.target";
    Words words{std::filesystem::path(Program("carma")).parent_path().parent_path() /
                "libexec/carma/at-shutdown"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return Child::Start(words, {.environment = {{"PATH", stand_in() + ":/usr/bin:/bin"},
                                                {"CARMA_SOCKET", site.socket()},
                                                {"EXPECTED", asked},
                                                {"JOB", job_file()}}});
  }
  void MachineGoesDown() const { WriteText(job_file(), "31\n"); }

  Site site{{.time_scale = 50}};

 private:
  Child manager_;
};

TEST_F(Shutdown, TasksCheckpointAndContinueAfterTheBoot) {
  site.Set("slots.shutdown_notice", "\"10m\"");
  Boot();
  Saver with_gpu(site, "with", {"--gpu-mem", "1G", "--no-slots"}),
      without(site, "without", {"-G", "0"});
  for (Saver* saver : {&with_gpu, &without}) {
    ASSERT_EQ(saver->Hear(), "up");
    saver->Step();
    ASSERT_EQ(saver->Hear(), "1");
    saver->Step();
    ASSERT_EQ(saver->Hear(), "2");
  }
  // Upgrading or removing the package may stop the unit while the machine stays up.
  const Ran nothing = StartAtShutdown().Wait();
  EXPECT_TRUE(nothing.Ok()) << nothing.Text();
  EXPECT_EQ(nothing.out, "");
  EXPECT_EQ(site.Status().closed, "");

  MachineGoesDown();
  const Ran down = StartAtShutdown().Wait();
  EXPECT_TRUE(down.Ok()) << down.Text();
  EXPECT_THAT(down.out,
              AllOf(HasSubstr("start no new task"), HasSubstr("No more tasks are running")));
  for (const Saver* saver : {&with_gpu, &without}) {
    const api::TaskView task = site.Task(saver->id);
    EXPECT_EQ(task.state, "queued");
    EXPECT_EQ(task.reason, "Draining");
    EXPECT_THAT(task.reason_text, HasSubstr("until the machine reboots: shutdown"));
    EXPECT_EQ(task.checkpoints, 1);
  }
  const std::uint64_t late = site.Submit({"--", "/bin/true"});
  site.ExpectWaits(late, "Draining");
  EXPECT_THAT(site.Status().troubles, Contains(HasSubstr("'carma resume all' reopens it")));

  PowerOff();
  Boot();
  EXPECT_EQ(site.Status().closed, "");
  EXPECT_THAT(site.Status().troubles, IsEmpty());
  for (Saver* saver : {&with_gpu, &without}) {
    ASSERT_EQ(saver->Hear(), "up");
    for (int step = 3; step <= kSteps; ++step) {
      saver->Step();
      ASSERT_EQ(saver->Hear(), std::to_string(step));
    }
    const api::TaskView task = site.Await(saver->id);
    EXPECT_EQ(task.state, "succeeded") << task.reason_text;
    EXPECT_EQ(task.attempt, 2);
  }
  EXPECT_EQ(site.Await(late).state, "succeeded");
}

TEST_F(Shutdown, StopsATaskThatDoesNotSaveInTime) {
  site.Set("slots.shutdown_notice", "\"20s\"");
  Boot();
  const std::string deaf = "trap '' USR1; echo up > ";
  Bell first(site.out_dir() + "/first"), second(site.out_dir() + "/second");
  const std::uint64_t again =
      site.Submit({"--", "/bin/sh", "-c", deaf + first.path() + "; sleep 10000"});
  const std::uint64_t once =
      site.Submit({"--no-requeue", "--", "/bin/sh", "-c", deaf + second.path() + "; sleep 10000"});
  ASSERT_EQ(first.Hear(), "up");
  ASSERT_EQ(second.Hear(), "up");
  MachineGoesDown();
  const Ran down = StartAtShutdown({"--user"}).Wait();
  EXPECT_TRUE(down.Ok()) << down.Text();
  EXPECT_EQ(site.Task(again).state, "queued");
  EXPECT_EQ(site.Task(once).state, "lost");
  EXPECT_EQ(site.Task(once).reason, "NodeFail");
  PowerOff();
  Boot();
  ASSERT_EQ(first.Hear(), "up");
  EXPECT_TRUE(site.Carma({"cancel", std::to_string(again)}).Ok());
  EXPECT_EQ(site.Await(again).state, "cancelled");
}

TEST_F(Shutdown, APowerCutBeforeTheCheckpointLosesNoTask) {
  site.Set("slots.shutdown_notice", "\"20m\"");
  Boot();
  Saver saves(site, "saves");
  Bell bell(site.out_dir() + "/bell");
  const std::uint64_t deaf = site.Submit(
      {"--", "/bin/sh", "-c", "trap '' USR1; echo up > " + bell.path() + "; exec sleep 10000"});
  ASSERT_EQ(saves.Hear(), "up");
  ASSERT_EQ(bell.Hear(), "up");
  saves.Step();
  ASSERT_EQ(saves.Hear(), "1");
  MachineGoesDown();
  Child unit = StartAtShutdown();
  site.AwaitState(saves.id, "queued");
  PowerOff({deaf});
  unit.Signal(SIGKILL);
  Boot();
  EXPECT_EQ(site.Status().closed, "");
  ASSERT_EQ(saves.Hear(), "up");
  for (int step = 2; step <= kSteps; ++step) {
    saves.Step();
    ASSERT_EQ(saves.Hear(), std::to_string(step));
  }
  EXPECT_EQ(site.Await(saves.id).state, "succeeded");
  ASSERT_EQ(bell.Hear(), "up");
  EXPECT_EQ(site.AwaitState(deaf, "running").attempt, 2);
}

TEST_F(Shutdown, UntilTheBootTheServerStaysClosedUnlessItIsOpenedByHand) {
  Boot();
  EXPECT_TRUE(site.Carma({"drain", "0", "--reason", "fan"}).Ok());
  const Ran closed =
      site.Carma({"drain", "all", "--until-boot", "--wait", "--reason", "new kernel"});
  EXPECT_TRUE(closed.Ok()) << closed.Text();
  EXPECT_EQ(closed.out, "The server will start no new tasks, and none are running\n");
  const std::uint64_t waits = site.Submit({"--", "/bin/true"});
  const std::uint64_t without = site.Submit({"-G", "0", "--", "/bin/true"});
  site.Stop(SIGKILL);
  Start();
  EXPECT_THAT(site.Status().closed, HasSubstr("until the machine reboots: new kernel"));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""), HasSubstr("carma_daemon_closed 1"));
  site.Stop(SIGTERM);
  Start();
  site.ExpectWaits(waits, "Draining");
  site.ExpectWaits(without, "Draining");
  EXPECT_THAT(site.Carma({"gpus"}).out, HasSubstr("drain"));
  site.Stop(SIGTERM);
  Boot();
  EXPECT_EQ(site.Await(waits).state, "succeeded");
  EXPECT_EQ(site.Await(without).state, "succeeded");
  EXPECT_EQ(site.Gpus().at(0).state, "drain") << "GPUs drained by hand stay closed";

  const Ran json = site.Carma({"drain", "all", "--until-boot", "--by", "now+1hour", "--json"});
  EXPECT_THAT(json.out, HasSubstr("\"closed\":\"closed by"));
  const std::uint64_t later = site.Submit({"--", "/bin/true"});
  site.ExpectWaits(later, "Draining");
  const Ran opened = site.Carma({"resume", "all"});
  // Either text is acceptable, because carmad may or may not have read GPU 0 since it started.
  EXPECT_THAT(opened.out,
              MatchesRegex("The server is accepting tasks again\n"
                           "GPU 0 (is open, and will accept tasks as soon as it responds|is "
                           "accepting tasks again)\nGPU 1 is accepting tasks again\n"));
  EXPECT_EQ(site.Await(later).state, "succeeded");

  const Ran one = site.Carma({"drain", "0", "--until-boot"});
  EXPECT_EQ(one.code, 2);
  EXPECT_THAT(one.err, HasSubstr("--until-boot: expected 'all', not individual GPUs"));
}

TEST_F(Shutdown, ADrainWaitsUntilTheTasksHaveLeft) {
  Boot();
  Gated runs(site, "runs");
  const std::uint64_t id = runs.Submit(site, "exit 0", {"--gpu", "1"});
  ASSERT_EQ(runs.Hear(), "1");
  site.AwaitState(id, "running");
  Child drain = site.StartCarma({"drain", "1", "--wait"});
  ASSERT_TRUE(Eventually([&] { return site.Gpus().at(1).state == "drng"; }));
  runs.Open();
  const Ran ended = drain.Wait();
  EXPECT_TRUE(ended.Ok()) << ended.Text();
  EXPECT_EQ(
      ended.out,
      "GPU 1 accepts no new tasks; running tasks continue\nNo tasks are left on these GPUs\n");
}

}  // namespace
}  // namespace carma::system_test
