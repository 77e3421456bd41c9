// Runs two pilots in one working directory, with the same task numbers, while killing pilots,
// daemons, shims and GPU readers. Every task and lease must end once, with its own exit code. No
// attempt may start twice, and no task may read another task's checkpoint or write to its output.
// CARMA_STRESS_TASKS=3000 CARMA_STRESS_KILLS=300 runs the long form.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

constexpr std::int64_t kSeed = 20'261'127;
constexpr std::size_t kMostLeases = 12;  // at the same time
constexpr int kLeaseCodes = 100;
constexpr std::chrono::minutes kAllEnd{10};

// Usage: work.sh SIDE quick|saver, or work.sh SIDE lease NUMBER. The script records each start; a
// saver also records whose checkpoint it resumed from.
constexpr char kWork[] = R"sh(
me=$1.$CARMA_TASK_ID
if [ "$2" = lease ]; then
  echo "$me" >> "marks/lease.$3"
  sleep 0.3
  exit $(($3 % 100))
fi
echo x >> "marks/$me.$CARMA_ATTEMPT"
echo "$me"
if [ "$2" = quick ]; then
  sleep 1
else
  model=$CARMA_CHECKPOINT_DIR/model step=0 leave=
  if [ -e "$model" ]; then
    read -r owner step < "$model"
    echo "$me $owner" >> resumed
  fi
  trap 'leave=1' USR1
  while [ "$step" -lt 8 ]; do
    sleep 0.2
    step=$((step + 1))
    echo "$me $step" > "$model.new" && mv "$model.new" "$model"
    [ -z "$leave" ] || exit 85
  done
fi
exit $((CARMA_TASK_ID % 5))
)sh";

std::int64_t Sized(const char* variable, std::int64_t usual) {
  return base::ParseInt(base::GetEnv(variable)).value_or(usual);
}

class PilotKills : public ::testing::Test {
 protected:
  struct Side {
    std::string name;
    RunOptions job;
    Child pilot;
    std::string socket;
    std::uint64_t leases = 0;
  };
  struct Lease {
    std::int64_t number = 0;
    Child process;
  };

  PilotKills() {
    for (const std::string& folder : {site_.folder() / "home", site_.out_dir() + "/marks"}) {
      std::filesystem::create_directory(folder);
      ::chmod(folder.c_str(), 0777);
    }
    WriteText(site_.out_dir() + "/work.sh", kWork);
    sides_[0] = {.name = "a", .job = Job("11", "0,1,2,3")};
    sides_[1] = {.name = "b", .job = Job("12", "4,5,6,7")};
  }

  RunOptions Job(const std::string& number, const std::string& gpus) const {
    RunOptions options;
    options.environment = {{"SLURM_JOB_ID", number},
                           {"SLURMD_NODENAME", "n0"},
                           {"SLURM_JOB_END_TIME", "4000000000"},
                           {"CUDA_VISIBLE_DEVICES", gpus},
                           {"HOME", site_.folder() / "home"},
                           {"TMPDIR", site_.folder().path()},
                           {"XDG_RUNTIME_DIR", ""},
                           {"XDG_STATE_HOME", ""},
                           {"CARMA_SIMULATION_STATE", site_.gpus_file()},
                           {"CARMA_MONITOR_NVML_LIBRARY", Program("libcarma-simgpu.so")},
                           {"CARMA_MONITOR_SAMPLE_PERIOD", "5s"},
                           {"CARMA_MONITOR_WINDOW", "20s"},
                           {"CARMA_POLICY_STALE_AFTER", "1d"},
                           {"CARMA_POLICY_SETTLE", "false"},
                           {"CARMA_POLICY_SM_CAP", "false"},
                           {"CARMA_POLICY_MARGIN", "0"},
                           {"CARMA_COLLOCATION_METHOD", "streams"},
                           {"CARMA_COLLOCATION_STREAMS_TASKS", "16"},
                           {"CARMA_RECOVERY_BACKOFF", "5s"},
                           {"CARMA_RECOVERY_MAX_VICTIM_RESTARTS", "1000"},
                           {"CARMA_SLOTS_LENGTH", "800s"},  // the clock runs 1000 times as fast
                           {"CARMA_SLOTS_NOTICE", "500s"},
                           {"CARMA_TASK_CGROUPS", "false"},
                           {"CARMA_TASK_KILL_GRACE", "2s"},
                           {"CARMA_DAEMON_LOG_LEVEL", "warn"}};
    options.cwd = site_.out_dir();
    return options;
  }

  void Serve(Side& side) {
    side.pilot = Child::Start({Program("carma"), "pilot", "--name", side.name}, side.job);
    const std::string_view name = "CARMA_SOCKET=";
    std::size_t at = std::string::npos;
    ASSERT_TRUE(Eventually([&] {
                  return (at = side.pilot.Out().find(name)) != std::string::npos ||
                         WaitReadable(side.pilot.end_fd(), std::chrono::milliseconds(0));
                }) &&
                at != std::string::npos)
        << side.pilot.Err();
    const std::string text = side.pilot.Out();
    side.socket = text.substr(at + name.size(), text.find('\n', at) - at - name.size());
    side.job.environment["CARMA_SOCKET"] = side.socket;
  }
  // Starts the pilot again if it has exited. It exits once its daemon has been killed several
  // times.
  void ServeAgain(Side& side) {
    if (!WaitReadable(side.pilot.end_fd(), std::chrono::milliseconds(0))) return;
    side.pilot.Wait();
    ++ended_;
    Serve(side);
  }

  void Submit(const Side& side, std::int64_t count, const std::string& array_end, const char* kind,
              std::vector<std::string> options) const {
    // This priority puts leases ahead of tasks, so some leases are always running.
    std::vector<std::string> words = {
        Program("carma"), "submit", "--memory", "20G",
        "--priority",     "-10",    "-a",       fmt::format("1-{}{}", count, array_end)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "/bin/sh", "work.sh", side.name, kind});
    const Ran ran = RunProgram(words, side.job);
    ASSERT_TRUE(ran.Ok()) << ran.Text();
  }

  void KeepLeases() {
    std::erase_if(leases_, [&](Lease& lease) {
      if (!WaitReadable(lease.process.end_fd(), std::chrono::milliseconds(0))) return false;
      ExpectLeaseEnded(lease);
      return true;
    });
    if (leases_.size() >= kMostLeases) return;
    Side& side = sides_[rng_.Below(2)];
    ++side.leases;
    leases_.push_back({++last_lease_,
                       Child::Start({Program("carma"), "lease", "--memory", "20G", "--", "/bin/sh",
                                     "work.sh", side.name, "lease", fmt::format("{}", last_lease_)},
                                    side.job)});
  }
  void ExpectLeaseEnded(Lease& lease) const {
    const Ran ran = lease.process.Wait(kAllEnd);
    EXPECT_EQ(ran.code, lease.number % kLeaseCodes) << "lease " << lease.number << ran.Text();
    const std::string starts =
        ReadText(fmt::format("{}/marks/lease.{}", site_.out_dir(), lease.number));
    EXPECT_EQ(std::ranges::count(starts, '\n'), 1) << "lease " << lease.number;
  }

  bool KillOneOf(const std::string& name) {
    const std::vector<pid_t> pids = site_.Processes(name);
    if (pids.empty()) return false;
    ::kill(pids[rng_.Below(pids.size())], SIGKILL);
    ++killed_[name];
    return true;
  }
  bool KillPilot() {
    Side& side = sides_[rng_.Below(2)];
    side.pilot.Signal(SIGKILL);
    side.pilot.Wait();
    if (rng_.Below(2) == 0) KillOneOf("carmad");
    Serve(side);
    ++killed_["carma pilot"];
    return true;
  }
  // Returns false if there was no process to kill.
  bool KillSomething() {
    const std::uint64_t which = rng_.Below(10);
    if (which < 4) return KillOneOf("carma-shim");
    if (which < 7) return KillOneOf("carmad");
    return which < 9 ? KillPilot() : KillOneOf("carma-reader");
  }

  static std::vector<api::TaskView> Tasks(const Side& side, const std::string& states) {
    api::Client client(side.socket);
    const auto page = cli::ListTasks(client, {.states = states, .limit = SIZE_MAX});
    return page ? page->tasks : std::vector<api::TaskView>(1);
  }
  static std::size_t Unfinished(const Side& side) { return Tasks(side, "").size(); }

  void ExpectEndedOnce(const Side& side, const api::TaskView& task) {
    const std::string me = fmt::format("{}.{}", side.name, task.id);
    const int code = static_cast<int>(task.id % 5);
    ASSERT_EQ(task.state, code == 0 ? "succeeded" : "failed")
        << me << ": " << task.reason << " " << task.reason_text;
    EXPECT_EQ(task.exit_code, code) << me;
    for (int attempt = 1; attempt <= task.attempt; ++attempt) {
      const std::string mark =
          ReadText(fmt::format("{}/marks/{}.{}", site_.out_dir(), me, attempt));
      EXPECT_LE(mark.size(), 2U) << me << ", attempt " << attempt << " began twice";
      EXPECT_TRUE(attempt < task.attempt || mark == "x\n") << me << " never began";
    }
    std::istringstream output(ReadText(task.stdout_path));
    int starts = 0;
    for (std::string line; std::getline(output, line);) {
      if (line.starts_with("carma: ")) continue;      // a message for the task's owner
      if (line == "User defined signal 1") continue;  // came before the trap was set
      EXPECT_EQ(line, me) << task.stdout_path;
      ++starts;
    }
    EXPECT_GT(starts, 0) << me << ": " << task.stdout_path;
    attempts_ += task.attempt;
  }

  // Expects that every task resumed only from its own checkpoint. Returns how many times tasks
  // resumed.
  std::size_t ExpectOwnCheckpoints() const {
    std::istringstream resumed(ReadText(site_.out_dir() + "/resumed"));
    std::size_t count = 0;
    for (std::string me, owner; resumed >> me >> owner; ++count)
      EXPECT_EQ(me, owner) << "resumed from another task's checkpoint";
    return count;
  }

  Site site_{{.shape = "8xA100-40GB"}};
  base::Rng rng_{static_cast<std::uint64_t>(Sized("CARMA_STRESS_SEED", kSeed))};
  std::array<Side, 2> sides_;
  std::vector<Lease> leases_;
  std::int64_t last_lease_ = 0;
  std::map<std::string, int> killed_;
  int ended_ = 0;  // pilots that gave up
  std::int64_t attempts_ = 0;
};

TEST_F(PilotKills, TwoPilotsInOneFolderLoseAndMixUpNothing) {
  const std::int64_t tasks = Sized("CARMA_STRESS_TASKS", 160);
  const std::int64_t kills = Sized("CARMA_STRESS_KILLS", 30);
  for (Side& side : sides_) {
    Serve(side);
    ASSERT_FALSE(HasFatalFailure());
    Submit(side, tasks / 4, "%6", "quick", {});
    Submit(side, tasks / 2 - tasks / 4, "", "saver", {"--checkpoint-signal", "USR1"});
    ASSERT_FALSE(HasFatalFailure());
  }
  for (std::int64_t done = 0; done < kills;) {
    ::poll(nullptr, 0, static_cast<int>(rng_.Below(200)));
    if (KillSomething()) ++done;
    KeepLeases();
    for (Side& side : sides_) ServeAgain(side);
    ASSERT_FALSE(HasFatalFailure());
  }
  const std::size_t left = Unfinished(sides_[0]) + Unfinished(sides_[1]);
  for (Lease& lease : leases_) ExpectLeaseEnded(lease);
  for (Side& side : sides_) {
    EXPECT_TRUE(Eventually(
        [&] {
          ServeAgain(side);
          return HasFatalFailure() || Unfinished(side) == 0;
        },
        kAllEnd));
    std::size_t ours = 0;
    for (const api::TaskView& task : Tasks(side, "all")) {
      if (task.origin == "lease") continue;
      ++ours;
      ExpectEndedOnce(side, task);
      ASSERT_FALSE(HasFatalFailure());
    }
    EXPECT_EQ(ours, static_cast<std::size_t>(tasks / 2));
    side.pilot.Signal(SIGTERM);
    EXPECT_EQ(side.pilot.Wait().code, 3) << "some tasks have failed, and none is waiting";
  }
  const std::size_t resumed = ExpectOwnCheckpoints();
  EXPECT_GT(resumed, 0U);
  EXPECT_TRUE(site_.SimGpu({"audit"}).Ok());
  for (const char* name : {"carmad", "carma-shim", "carma-reader"})
    EXPECT_TRUE(Eventually([&] { return site_.Processes(name).empty(); })) << name;
  std::string killed;
  for (const auto& [name, count] : killed_) killed += fmt::format(" {} {},", name, count);
  fmt::print(
      "{} tasks in {} attempts, {} from a checkpoint; {} leases; killed:{} {} pilots ended; "
      "{} tasks were left at the last kill\n",
      tasks, attempts_, resumed, last_lease_, killed, ended_, left);
}

}  // namespace
}  // namespace carma::system_test
