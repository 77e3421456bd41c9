// Tests tasks that share GPUs through MPS servers: limits, faults, servers that fail, daemons that
// start and exit. The MPS control program is simulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "api/listening.h"
#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "task/mps/mps_control.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

// The PCI address of the first simulated GPU, as the kernel writes it.
constexpr char kPlace[] = "0000:03:00";
constexpr double kLongTraining = 1e6;  // runs until it is cancelled

constexpr Training kSmall{.memory_mib = 4000, .solo_s = kLongTraining};

class Mps : public ::testing::Test {
 protected:
  Mps() {
    const std::string program = site.folder() / "carma-simmps";
    std::filesystem::copy_file(Program("carma-simmps"), program);
    Behave("");
    WriteText(site.folder() / "control",
              "#!/bin/sh\nexport CARMA_SIMMPS_BEHAVIOUR=\"$(cat " + BehaviourFile() +
                  ")\"\ncase $CARMA_SIMMPS_BEHAVIOUR in *protocol3*) export " +
                  "CUDA_MPS_PROTOCOL_VERSION=3;; esac\nexec " + program + " \"$@\"\n",
              0755);
    site.Set("collocation.method", "\"mps\"");
    site.Set("collocation.mps_control", "\"" + (site.folder() / "control") + "\"");
    site.Set("collocation.mps_dir", "\"" + dir() + "\"");
    site.Set("policy.settle", "false");
  }
  ~Mps() override {
    for (const task::MpsServerId& id : Servers())
      task::MpsControl({.dir = dir()}, id).Quit(std::chrono::steady_clock::now());
  }
  std::string dir() const { return site.folder() / "mps"; }
  std::string BehaviourFile() const { return site.folder() / "behaviour"; }
  void Behave(const std::string& words) const {
    WriteText(BehaviourFile(), words + " " + branch + "\n");
  }

  std::vector<task::MpsServerId> Servers() {
    return task::FindMpsServers({.dir = dir()}, {Uuid(0), Uuid(1)});
  }
  std::string Uuid(std::size_t gpu) {
    if (uuids_.empty() && site.daemon().started()) {
      for (const api::GpuView& each : site.Gpus()) uuids_.push_back(each.uuid);
    }
    return gpu < uuids_.size() ? uuids_[gpu] : "none";
  }
  task::MpsServerId Server(std::size_t gpu = 0) { return {::getuid(), ::getgid(), Uuid(gpu)}; }
  std::optional<base::ProcessId> ControlDaemon() {
    return task::MpsControl({.dir = dir()}, Server()).Daemon();
  }
  std::string Ask(const std::string& command) {
    RunOptions options{.input = command + "\n"};
    options.environment["CUDA_MPS_PIPE_DIRECTORY"] = task::MpsPipeDir(dir(), Server());
    return RunProgram({site.folder() / "carma-simmps"}, options).out;
  }
  void KillServer() {
    const auto server = base::ParseInt(base::Trim(Ask("get_server_list")));
    ASSERT_TRUE(server);
    ::kill(static_cast<pid_t>(*server), SIGKILL);
  }
  // Waits until the task is running as a client of an MPS server.
  api::TaskView AwaitClient(std::uint64_t id, int attempt = 1) {
    api::TaskView view;
    EXPECT_TRUE(Eventually([&] {
      view = site.Task(id);
      return view.ended_ms ||
             (view.attempt >= attempt && view.state == "running" && view.observed_mib > 0);
    }));
    EXPECT_EQ(view.state, "running") << view.reason_text << site.Output(id);
    EXPECT_EQ(view.sharing, "mps") << view.sharing_note;
    return view;
  }
  void ExpectNoDaemons() {
    EXPECT_TRUE(Eventually([&] { return Servers().empty(); })) << "a control daemon still runs";
  }

  // Cancels one of an MPS server's two clients. The client ignores SIGTERM, so it has to be
  // terminated by the server: killing it during a computation would also take down the server and
  // the other client.
  void ExpectTheCancelledClientGoesAlone() {
    Training stubborn = kSmall;
    stubborn.more = {"--ignore-term"};
    const std::uint64_t first = site.Train({"--gpu-mem", "5000"}, stubborn);
    const std::uint64_t second =
        site.Train({"--gpu-mem", "5000"}, {.memory_mib = 4000, .solo_s = 2000});
    AwaitClient(first);
    AwaitClient(second);
    site.Carma({"cancel", std::to_string(first)});
    EXPECT_EQ(site.Await(first).state, "cancelled");
    EXPECT_THAT(site.Output(first), HasSubstr("terminated by the server"));
    EXPECT_EQ(site.Await(second).state, "succeeded") << site.Output(second);
    EXPECT_EQ(site.Task(second).attempt, 1);
  }

  Site site{{.shape = "1xA100-40GB"}};
  std::string branch;  // driver branch whose control program the simulated one imitates

 private:
  std::vector<std::string> uuids_;
};

// Tests behaviour that differs between driver branches: how a control daemon is found and queried.
class MpsBranch : public Mps, public ::testing::WithParamInterface<const char*> {
 protected:
  MpsBranch() {
    branch = GetParam();
    Behave("");
  }
};
INSTANTIATE_TEST_SUITE_P(Of, MpsBranch, ::testing::Values("r535", "r550"),
                         [](const auto& branch) { return std::string(branch.param); });

TEST_P(MpsBranch, OneServerForTheTasksOfAUserOnAGpu) {
  site.Start();
  EXPECT_THAT(Servers(), IsEmpty());
  const std::uint64_t first = site.Train({"--gpu-mem", "4000"}, kSmall);
  const std::uint64_t second = site.Train({"--gpu-mem", "6000", "--sm-share", "30%"}, kSmall);
  EXPECT_EQ(AwaitClient(first).memory_limit_mib, 4'000 + 2'048) << "the claim and the margin";
  EXPECT_EQ(AwaitClient(first).thread_percent, 0);
  EXPECT_EQ(AwaitClient(second).thread_percent, 30);
  const std::string server(base::Trim(Ask("get_server_list")));
  EXPECT_EQ(task::ParseMpsPids(Ask("get_client_list " + server)).value().size(), 2U);
  site.CancelAll();
  EXPECT_EQ(site.Await(first).sharing, "mps") << "is kept";
  site.Await(second);
  ExpectNoDaemons();
  site.ExpectIdle();
}

TEST_F(Mps, AUsersServerForAllGpusAcceptsTasksOnSeveralGpus) {
  Site two{{.shape = "2xA100-40GB",
            .settings = {{"collocation.method", "\"mps\""},
                         {"collocation.mps_control", "\"" + (site.folder() / "control") + "\""},
                         {"collocation.mps_dir", "\"" + dir() + "\""},
                         {"collocation.mps_servers", "\"user\""},
                         {"policy.settle", "false"}}}};
  two.Start();
  const std::uint64_t one = two.Train({"--gpu-mem", "4000"}, kSmall);
  const std::uint64_t both = two.Train({"--gpus", "2", "--gpu-mem", "4000"}, kSmall);
  EXPECT_TRUE(Eventually(
      [&] { return two.Task(one).observed_mib > 0 && two.Task(both).observed_mib > 0; }));
  EXPECT_EQ(two.Task(both).sharing, "mps") << two.Task(both).sharing_note;
  const std::vector<api::GpuView> gpus = two.Gpus();
  const task::MpsServerId id{::getuid(), ::getgid(), gpus[0].uuid + "," + gpus[1].uuid};
  const task::MpsControl control({.dir = dir()}, id);
  const auto daemon = control.Daemon();
  ASSERT_TRUE(daemon);
  RunOptions options{.input = "get_server_list\n"};
  options.environment["CUDA_MPS_PIPE_DIRECTORY"] = task::MpsPipeDir(dir(), id);
  const std::string program = site.folder() / "carma-simmps";
  const std::string server(base::Trim(RunProgram({program}, options).out));
  options.input = "get_client_list " + server + "\n";
  EXPECT_EQ(task::ParseMpsPids(RunProgram({program}, options).out).value().size(), 2U);

  // When the setting changes, running tasks keep their server.
  two.Set("collocation.mps_servers", "\"gpu\"");
  two.Restart(SIGKILL);
  const std::uint64_t late = two.Train({"--gpu-mem", "4000"}, kSmall);
  EXPECT_TRUE(Eventually([&] { return two.Task(late).observed_mib > 0; }));
  EXPECT_EQ(two.Task(one).state, "running");
  EXPECT_EQ(two.Task(both).state, "running");
  EXPECT_EQ(control.Daemon(), daemon);
  two.CancelAll();
  two.Await(late);
  two.Stop(SIGTERM);
  control.Quit(std::chrono::steady_clock::now());
}

TEST_F(Mps, AServingTaskHasAndShowsPriority) {
  site.Start();
  const auto run = [&](Words options) {
    options.insert(options.end(), {"--gpu-mem", "1G", "--", "/bin/sh", "-c",
                                   "echo priority $CUDA_MPS_CLIENT_PRIORITY"});
    const std::uint64_t id =
        site.Submit(options, {.environment = {{"CUDA_MPS_CLIENT_PRIORITY", "7"}}});
    EXPECT_EQ(site.Await(id).state, "succeeded");
    return id;
  };
  EXPECT_THAT(site.Output(run({})), HasSubstr("priority 1"));
  const std::uint64_t serves = run({"--serve"});
  EXPECT_THAT(site.Output(serves), HasSubstr("priority 0"));
  const std::string shown = site.Carma({"show", std::to_string(serves)}).out;
  EXPECT_THAT(shown, HasSubstr("under MPS its kernels run before"));
  EXPECT_THAT(shown, HasSubstr("1.25 times"));

  WriteText(site.folder() / "serve.sh", "#!/bin/sh\n#CARMA --serve --max-slowdown 2\ntrue\n", 0755);
  const std::uint64_t script = site.Submit({site.folder() / "serve.sh"});
  EXPECT_EQ(site.Await(script).max_slowdown, 2.0);
  EXPECT_TRUE(site.Task(script).serve);
}

TEST_F(Mps, TasksAloneOrOnSeveralGpusDoNotUseMps) {
  Site two{{.shape = "2xA100-40GB",
            .settings = {{"collocation.method", "\"mps\""},
                         {"collocation.mps_control", "\"" + (site.folder() / "control") + "\""},
                         {"collocation.mps_dir", "\"" + dir() + "\""},
                         {"collocation.mps_servers", "\"gpu\""}}}};
  two.Start();
  const Words print = {"--", "/bin/sh", "-c", "echo pipes $CUDA_MPS_PIPE_DIRECTORY"};
  const auto run = [&](Words options) {
    options.insert(options.end(), print.begin(), print.end());
    const std::uint64_t id =
        two.Submit(options, {.environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/mine"}}});
    EXPECT_EQ(two.Await(id).state, "succeeded");
    return id;
  };
  const std::uint64_t both = run({"--gpus", "2", "--gpu-mem", "1G"});
  EXPECT_EQ(two.Task(both).sharing, "streams");
  EXPECT_THAT(two.Task(both).sharing_note, HasSubstr("several GPUs"));
  EXPECT_THAT(two.Output(both), HasSubstr("pipes /dev/null"));
  const std::uint64_t alone = run({"--exclusive", "--gpu-mem", "1G"});
  EXPECT_EQ(two.Task(alone).sharing, "alone");
  EXPECT_THAT(two.Output(alone), HasSubstr("pipes /mine")) << "its own folder is kept";
  const std::uint64_t client = run({"--gpu-mem", "1G"});
  EXPECT_EQ(two.Task(client).sharing, "mps");
  EXPECT_THAT(two.Output(client), HasSubstr("pipes " + dir()));
}

TEST_F(Mps, ATaskOverItsPromiseRunsOutOfMemoryAloneAndComesBack) {
  site.Start();
  const std::uint64_t neighbour = site.Train({"--gpu-mem", "5000"}, kSmall);
  AwaitClient(neighbour);
  const std::uint64_t greedy =
      site.Train({"--gpu-mem", "2000"}, {.memory_mib = 6000, .solo_s = 50});
  const api::TaskView task = site.Await(greedy);
  EXPECT_EQ(task.state, "succeeded") << task.reason_text << site.Output(greedy);
  EXPECT_GE(task.ooms, 1) << "although 30 GB were free";
  EXPECT_THAT(site.Output(greedy), HasSubstr("CUDA out of memory"));
  EXPECT_EQ(site.Task(neighbour).attempt, 1);
  EXPECT_EQ(site.Task(neighbour).state, "running");
}

TEST_F(Mps, ATaskThatOutgrowsItsPromiseOnAnEmptyGpuIsPromisedMore) {
  site.Start();
  const std::uint64_t outgrown =
      site.Train({"--gpu-mem", "6000"}, {.memory_mib = 12'000, .solo_s = 5});
  const api::TaskView task = site.Await(outgrown);
  EXPECT_EQ(task.state, "succeeded") << task.reason_text << site.Output(outgrown);
  EXPECT_EQ(task.ooms, 1) << "40 GB were free, but its promise stopped it";
  EXPECT_EQ(task.sharing, "mps");
  EXPECT_GE(task.memory_limit_mib, 12'000);
}

TEST_F(Mps, WithoutTheLimitNothingIsEnforced) {
  site.Set("collocation.mps_memory_limit", "false");
  site.Start();
  const std::uint64_t greedy = site.Train({"--gpu-mem", "2000"}, {.memory_mib = 6000, .solo_s = 5});
  const api::TaskView task = site.Await(greedy);
  EXPECT_EQ(task.state, "succeeded");
  EXPECT_EQ(task.ooms, 0);
  EXPECT_EQ(task.sharing, "mps");
  EXPECT_EQ(task.memory_limit_mib, 0);
}

// All clients get the same error, and the culprit exits last. Only the kernel's log identifies the
// culprit.
TEST_F(Mps, AFaultIsChargedToItsProgramAndNotToItsNeighbours) {
  const std::string log = site.folder() / "kmsg";
  WriteText(log, "");
  site.Set("monitor.kernel_log", "\"" + log + "\"");
  site.Start();
  std::vector<std::uint64_t> neighbours;
  for (int i = 0; i < 2; ++i) neighbours.push_back(site.Train({"--gpu-mem", "5000"}, kSmall));
  for (const std::uint64_t id : neighbours) AwaitClient(id);
  const std::uint64_t culprit = site.Train(
      {"--gpu-mem", "5000"}, {.memory_mib = 4000, .solo_s = 100, .more = {"--fault-at", "0.5"}});
  std::ofstream(log) << "NVRM: Xid (PCI:" << kPlace
                     << "): 31, pid=" << AwaitClient(culprit).pid.value_or(0) << ", name=python3\n";
  const api::TaskView failed = site.Await(culprit);
  EXPECT_EQ(failed.state, "failed");
  EXPECT_EQ(failed.reason, "GpuFault") << failed.reason_text;
  EXPECT_EQ(failed.attempt, 1);
  for (const std::uint64_t id : neighbours) {
    // Until the culprit has exited, a restarted victim uses streams, so AwaitClient() would fail.
    api::TaskView task;
    EXPECT_TRUE(Eventually([&] { return (task = site.Task(id)).observed_mib > 0; }));
    EXPECT_EQ(task.attempt, 2) << site.Carma({"history", std::to_string(id)}).out;
    EXPECT_EQ(task.ooms, 0);
    EXPECT_THAT(site.Carma({"history", std::to_string(id)}).out, HasSubstr("Victim"));
  }
}

TEST_P(MpsBranch, TheVictimsOfADeadServerStartAgain) {
  site.Start();
  const std::uint64_t first = site.Train({"--gpu-mem", "5000"}, kSmall);
  const std::uint64_t second = site.Train({"--gpu-mem", "5000"}, kSmall);
  AwaitClient(first);
  AwaitClient(second);
  KillServer();
  AwaitClient(first, 2);
  AwaitClient(second, 2);
  // A task that fails by itself while its server is healthy is not a victim.
  const std::uint64_t fails = site.Submit({"--gpu-mem", "1G", "--", "/bin/sh", "-c", "exit 3"});
  EXPECT_EQ(site.Await(fails).state, "failed");
  EXPECT_EQ(site.Task(fails).attempt, 1);
}

TEST_P(MpsBranch, TasksRunWithoutAControlDaemonThatDoesNotServe) {
  site.Set("collocation.mps_timeout", "\"300ms\"");
  site.Start();
  const struct {
    const char* behaviour;
    const char* note;
  } kCases[] = {{"refuse-start", "Without MPS"},
                {"hang-start", "in time"},
                {"hang", "in time"},
                {"server-fails", "Failed to start"}};
  for (const auto& each : kCases) {
    Behave(each.behaviour);
    api::TaskView task;
    // While backing off, CARMA still shows the cause from the previous case.
    EXPECT_TRUE(Eventually([&] {
      task = site.Await(site.Train({"--gpu-mem", "4000"}, {.memory_mib = 3000, .solo_s = 5}));
      EXPECT_EQ(task.state, "succeeded") << task.reason_text << site.Output(task.id);
      EXPECT_EQ(task.sharing, "streams");
      EXPECT_EQ(task.memory_limit_mib, 0);
      return task.sharing_note.find(each.note) != std::string::npos;
    })) << each.behaviour
        << ": " << task.sharing_note;
    ExpectNoDaemons();
  }
  Behave("");
  std::uint64_t again = 0;
  ASSERT_TRUE(Eventually([&] {
    again = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
    return site.Await(again).sharing == "mps";
  })) << "after the back-off the next task tries again: "
      << site.Task(again).sharing_note;
}

TEST_F(Mps, ASharedServerRunsTheTasksOfAllUsers) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  branch = "r580";
  Behave("");
  site.Set("collocation.mps_servers", "\"shared\"");
  site.Start();
  EXPECT_THAT(site.Status().collocation,
              HasSubstr("tasks of all users, not isolated from each other, compute"));
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              HasSubstr("nothing isolates their processes from each other"));
  Words words = SimTask(kSmall);
  words[0] = site.folder() / "carma-simtask";
  std::filesystem::copy_file(Program("carma-simtask"), words[0]);
  words.insert(words.begin(), {"--gpu-mem", "4000", "--"});
  const std::uint64_t mine = site.Submit(words);
  const std::uint64_t theirs = site.Submit(words, {.uid = OtherUser()});
  AwaitClient(mine);
  AwaitClient(theirs);
  EXPECT_THAT(site.Carma({"show", std::to_string(mine)}).out,
              HasSubstr("Its MPS server is shared by all users"));
  const task::MpsControl control({.dir = dir()}, task::SharedMpsServer(Uuid(0)));
  const auto daemon = control.Daemon();
  ASSERT_TRUE(daemon);
  RunOptions options{.input = "get_server_list\n"};
  options.environment["CUDA_MPS_PIPE_DIRECTORY"] = task::MpsPipeDir(dir(), control.id());
  const std::string program = site.folder() / "carma-simmps";
  const std::string server(base::Trim(RunProgram({program}, options).out));
  options.input = "get_client_list " + server + "\n";
  EXPECT_EQ(task::ParseMpsPids(RunProgram({program}, options).out).value().size(), 2U);
  site.Restart(SIGKILL);
  site.Carma({"cancel", std::to_string(mine)});
  site.Await(mine);
  EXPECT_EQ(site.Task(theirs).attempt, 1) << "the neighbour of a cancelled client lives on";
  EXPECT_EQ(control.Daemon(), daemon);
  site.CancelAll();
  site.Await(theirs);
  ExpectNoDaemons();
}

TEST_F(Mps, AControlProgramWithoutASharedServerIsRefused) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  site.Set("collocation.mps_servers", "\"shared\"");
  site.Start();
  const std::uint64_t id = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
  EXPECT_EQ(site.Await(id).sharing, "streams");
  EXPECT_THAT(site.Task(id).sharing_note, HasSubstr("needs driver branch 580 or newer"));
  site.Stop(SIGTERM);
  site.Set("collocation.method", "\"auto\"");
  site.Start();
  EXPECT_THAT(site.Status().collocation,
              HasSubstr("without MPS: this driver's MPS control program cannot start a server for "
                        "all users"));
}

TEST_F(Mps, TasksWithAShareHaveTheirOwnSmsIfTheDriverSupportsPartitions) {
  branch = "r590";
  Behave("");
  site.Set("collocation.sm_partitions", "true");
  site.Start();
  EXPECT_THAT(site.Status().collocation, HasSubstr("dedicated SMs if the driver"));
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              HasSubstr("tasks with --sm-share get their own SM partition"));
  Training light = kSmall;
  light.sm_active = 0.1;
  const auto train = [&](const char* share) {
    return site.Train({"--gpu-mem", "5000", "--sm-share", share}, light);
  };
  const std::uint64_t half = train("50%"), third = train("30%");
  EXPECT_EQ(AwaitClient(half).partition_sms, 52) << "13 of 27 chunks of 4";
  EXPECT_EQ(AwaitClient(third).partition_sms, 32);
  EXPECT_EQ(site.Task(third).thread_percent, 0);
  EXPECT_THAT(site.Carma({"show", std::to_string(half)}).out, HasSubstr("MPS, 52 dedicated SMs"));
  EXPECT_THAT(Ask("lspart"), ::testing::ContainsRegex(" 6 +21 +24 +84"));
  const std::uint64_t without = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
  EXPECT_EQ(site.Await(without).sharing, "streams");
  EXPECT_THAT(site.Task(without).sharing_note, HasSubstr("the task has no --sm-share"));

  // The next carmad must find out which task each SM partition belongs to.
  site.Restart(SIGKILL);
  const std::uint64_t late = train("20%");
  EXPECT_EQ(AwaitClient(late).partition_sms, 20);
  EXPECT_THAT(Ask("lspart"), ::testing::ContainsRegex(" 1 +26 +4 +104"));
  site.Carma({"cancel", std::to_string(third)});
  site.Await(third);
  EXPECT_TRUE(Eventually([&] { return Ask("lspart").find(" 72 ") != std::string::npos; }))
      << Ask("lspart");
  EXPECT_EQ(site.Task(half).attempt, 1);
  EXPECT_EQ(site.Task(late).attempt, 1);
  site.CancelAll();
  ExpectNoDaemons();
}

TEST_F(Mps, AShareIsALimitWhereTheDriverHasNoPartitions) {
  site.Set("collocation.sm_partitions", "true");
  site.Start();
  const std::uint64_t id = site.Train({"--gpu-mem", "5000", "--sm-share", "30%"}, kSmall);
  const api::TaskView task = AwaitClient(id);
  EXPECT_EQ(task.thread_percent, 30);
  EXPECT_EQ(task.partition_sms, 0);
  EXPECT_THAT(task.sharing_note, HasSubstr("its MPS server runs without SM partitions"));
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              HasSubstr("this driver has no SM partitions"));
}

TEST_F(Mps, AFullServerTakesNoFurtherTask) {
  site.Set("collocation.mps_clients", "1");
  site.Start();
  const std::uint64_t first = site.Train({"--gpu-mem", "5000"}, kSmall);
  AwaitClient(first);
  const std::uint64_t second = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
  EXPECT_EQ(site.Await(second).sharing, "streams");
  EXPECT_THAT(site.Task(second).sharing_note, HasSubstr("already has 1 clients"));
}

TEST_P(MpsBranch, TheNextDaemonFindsItsServersAndTheirTasks) {
  site.Start();
  const std::uint64_t first = site.Train({"--gpu-mem", "5000"}, kSmall);
  const std::uint64_t second = site.Train({"--gpu-mem", "5000"}, kSmall);
  const api::TaskView before = AwaitClient(first);
  AwaitClient(second);
  const auto control = ControlDaemon();
  ASSERT_TRUE(control);
  site.Restart(SIGKILL);
  const api::TaskView after = AwaitClient(first);
  EXPECT_EQ(after.pid, before.pid);
  EXPECT_EQ(after.memory_limit_mib, before.memory_limit_mib);
  EXPECT_EQ(ControlDaemon(), control);
  site.Carma({"cancel", std::to_string(second)});
  EXPECT_EQ(site.Await(second).state, "cancelled");
  EXPECT_EQ(site.Task(first).attempt, 1) << "the neighbour of a cancelled client lives on";
  site.Restart(SIGTERM);
  EXPECT_EQ(ControlDaemon(), control) << "a server with tasks keeps running when carmad exits";
  KillServer();
  AwaitClient(first, 2);
  site.Carma({"cancel", std::to_string(first)});
  site.Await(first);
  ExpectNoDaemons();
}

TEST_F(Mps, ACancelledClientIsRemovedFromTheServerFirst) {
  site.Start();
  ExpectTheCancelledClientGoesAlone();
}

// carmad starts control daemons with protocol 2, but this control program only speaks protocol 3.
TEST_F(Mps, AControlDaemonThatSpeaksProtocol3ServesAsWell) {
  Behave("protocol3");
  site.Set("collocation.method", "\"auto\"");
  site.Start();
  EXPECT_THAT(site.Status().collocation, HasSubstr("mps")) << "it was tried";
  EXPECT_THAT(site.Carma({"doctor", "--config", site.config_file()}).out,
              HasSubstr("a control daemon was started, queried and stopped"));
  ExpectTheCancelledClientGoesAlone();
  ExpectNoDaemons();
}

TEST_F(Mps, AStopOvertakesTheStartOfTheServer) {
  site.Set("collocation.mps_timeout", "\"20s\"");
  site.Start();
  Behave("hang-start");
  const std::uint64_t id = site.Submit({"--gpu-mem", "1G", "--", "/bin/true"});
  site.AwaitState(id, "launching");
  site.Carma({"cancel", std::to_string(id)});
  EXPECT_EQ(site.Await(id).state, "cancelled");
  Behave("");
}

TEST_F(Mps, AReloadDuringTheTrialKeepsWhatIsKnownAboutMemoryLimits) {
  site.Set("collocation.method", "\"auto\"");
  site.Set("collocation.mps_timeout", "\"3s\"");
  Behave("hang-start");
  site.Start(/*wait_gpus=*/false);
  const auto logs = [this](const char* event) {
    return Eventually([&] { return site.daemon().Err().contains(event); });
  };
  ASSERT_TRUE(logs("event=memory_limits"));
  site.daemon().Signal(SIGHUP);
  ASSERT_TRUE(logs("event=config_read"));
  ASSERT_TRUE(logs("event=engine_started"));
  EXPECT_NE(site.Status().no_memory_limits, "") << "the simulated driver has none";
}

TEST_P(MpsBranch, AnOrderlyEndLeavesNoServerWithoutTasks) {
  site.Start();
  EXPECT_EQ(site.Await(site.Submit({"--gpu-mem", "1G", "--", "/bin/true"})).sharing, "mps");
  const task::MpsServerId id = Server();
  site.Stop(SIGTERM);
  EXPECT_FALSE(task::MpsControl({.dir = dir()}, id).Daemon());
  EXPECT_FALSE(base::Exists(task::MpsPipeDir(dir(), id)));
  const std::string log =
      base::ReadFile(task::MpsLogDir(dir(), id) + "/control.log", 1 << 20).value();
  EXPECT_THAT(log, HasSubstr("NEW SERVER")) << "the logs are kept";
}

TEST_F(Mps, TheDefaultIsMpsWhereItsControlDaemonAnswers) {
  site.Set("collocation.method", "\"auto\"");
  site.Start();
  EXPECT_THAT(site.Status().collocation, HasSubstr("mps: tasks of one user"));
  EXPECT_THAT(Servers(), IsEmpty()) << "the server used for the check has ended";
  const std::uint64_t first = site.Train({"--gpu-mem", "4000"}, kSmall);
  AwaitClient(first);
}

TEST_F(Mps, ARequestWaitsForACarmadThatHasJustStarted) {
  Bell asked(site.out_dir() + "/asked"), gate(site.out_dir() + "/gate");
  const std::string program = site.out_dir() + "/control";
  WriteText(program, "#!/bin/sh\n[ ! -e " + program + ".done ] || exit 1\n: > " + program +
                         ".done\necho asked > " + asked.path() + "\nread go < " + gate.path() +
                         "\nexit 1\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  site.Set("collocation.method", "\"auto\"");
  site.Set("collocation.mps_control", "\"" + program + "\"");
  site.Start(false);
  ASSERT_EQ(asked.Hear(), "asked");
  const base::UniqueFd asks(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = api::UnixAddress(site.socket()).value();
  ASSERT_EQ(::connect(asks.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_TRUE(base::WriteAll(asks.get(), "GET /v1/gpus HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  // The second request needs no GPU, so its response comes before the first one's.
  EXPECT_THAT(site.Status().collocation, HasSubstr("being checked"));
  WriteText(gate.path(), "go\n");
  char answer[16] = {};
  ASSERT_GT(::read(asks.get(), answer, sizeof answer - 1), 0);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST_F(Mps, TheDefaultIsStreamsWithFewNeighboursWhereNoControlDaemonAnswers) {
  site.Set("collocation.method", "\"auto\"");
  site.Set("collocation.streams_tasks", "2");
  for (const std::string program : {"/no/such/program", "/bin/false"}) {
    site.Set("collocation.mps_control", "\"" + program + "\"");
    site.Start();
    EXPECT_THAT(site.Status().collocation,
                AllOf(HasSubstr("streams: at most 2 tasks"), HasSubstr("without MPS: ")))
        << program;
    site.Stop(SIGTERM);
  }
  site.Start();
  constexpr Training kQuiet{.memory_mib = 2000, .solo_s = kLongTraining, .sm_active = 0.01};
  std::vector<std::uint64_t> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(site.Train({"--gpu-mem", "2000"}, kQuiet));
  EXPECT_EQ(site.AwaitState(tasks[1], "running").sharing, "streams");
  site.ExpectWaits(tasks[2], "TasksPerGpu");
}

TEST_F(Mps, EachUserHasAnMpsServer) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  site.Start();
  Gated mine(site, "mine"), theirs(site, "theirs");
  const std::uint64_t first = mine.Submit(site, "exit 0", {"--gpu-mem", "1G"});
  const std::uint64_t second =
      site.Submit({"--gpu-mem", "1G", "--", "/bin/true"}, {.uid = OtherUser()});
  ASSERT_EQ(mine.Hear(), "1");
  EXPECT_EQ(site.Await(second).sharing, "mps");
  const task::MpsServerId other{OtherUser(), OtherUser(), Uuid(0)};
  struct stat st {};
  ASSERT_EQ(::stat(task::MpsPipeDir(dir(), other).c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, OtherUser());
  EXPECT_EQ(st.st_mode & 0777, 0700U);
  EXPECT_NE(task::MpsPipeDir(dir(), other), task::MpsPipeDir(dir(), Server()));
  EXPECT_EQ(site.Task(first).sharing, "mps");
  mine.Open();
  site.Await(first);
  ExpectNoDaemons();
}

TEST_P(MpsBranch, TheDoctorTriesAControlDaemon) {
  const auto doctor = [&] { return site.Carma({"doctor", "--config", site.config_file()}).out; };
  EXPECT_THAT(doctor(), HasSubstr("a control daemon was started, queried and stopped"));
  const auto told = HasSubstr("does not report the state of MPS servers");
  if (branch == "r535") {
    EXPECT_THAT(doctor(), told);
  } else {
    EXPECT_THAT(doctor(), Not(told));
  }
  Behave("refuse-start");
  EXPECT_THAT(doctor(), HasSubstr("no control daemon can be used ("));
}

TEST(Streams, MarksAndCountsATaskThatOutgrowsItsPromise) {
  Site site{{.shape = "1xA100-40GB"}};
  site.Start();
  const std::uint64_t greedy =
      site.Train({"--gpu-mem", "2000"}, {.memory_mib = 8000, .solo_s = kLongTraining});
  EXPECT_TRUE(Eventually([&] {  // at first, its memory is still growing
    return site.Task(greedy).over_promise_mib.value_or(0) >= 8000 - 2000 - 2048;
  }));
  EXPECT_THAT(site.Carma({"list"}).out, HasSubstr("0 (OverPromise)"));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""), HasSubstr("carma_tasks_over_promise 1"));
  EXPECT_EQ(site.Task(greedy).state, "running") << "exceeding the promise does not end a task";
  site.CancelAll();
  EXPECT_THAT(site.Stop(SIGTERM).err, HasSubstr("event=over_promise task=1"));
}

TEST(Streams, MarksATaskOnAGpuThatItWasNotAssigned) {
  Site site{{.settings = {{"idle.after", "\"15m\""}}}};
  site.Start();
  std::string astray = "CUDA_VISIBLE_DEVICES=1 exec";
  for (const std::string& word : SimTask({.memory_mib = 3000, .solo_s = kLongTraining}))
    astray += " " + word;
  const std::uint64_t id = site.Submit({"--gpu-mem", "4G", "--", "/bin/sh", "-c", astray});
  ASSERT_EQ(site.AwaitState(id, "running").gpu_indices, std::vector<std::int64_t>{0});
  EXPECT_TRUE(Eventually([&] { return site.Gpus()[1].foreign_mib >= 3000; })) << "it counts there";
  EXPECT_EQ(site.Gpus()[1].foreign_processes, 1);
  EXPECT_EQ(site.Task(id).wrong_gpus, std::vector<std::int64_t>{1});
  EXPECT_THAT(site.Carma({"list"}).out, HasSubstr("0 (WrongDevice)"));
  EXPECT_THAT(site.Carma({"show", std::to_string(id)}).out, HasSubstr("processes on GPU 1"));
  EXPECT_THAT(site.client().Get("/metrics").value_or(""), HasSubstr("carma_tasks_on_wrong_gpu 1"));
  const std::uint64_t alone = site.Submit({"--exclusive", "--", "/bin/true"});
  site.ExpectWaits(alone, "Exclusive");
  site.CancelAll();
  const std::string log = site.Stop(SIGTERM).err;
  EXPECT_THAT(log, HasSubstr("event=wrong_device task=1"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("idle_holder")));
}

TEST(Streams, NoTaskJoinsAForeignMpsDaemon) {
  Site site;
  site.Start();
  const std::uint64_t id =
      site.Submit({"--gpu-mem", "1G", "--", "/bin/sh", "-c", "echo pipes $CUDA_MPS_PIPE_DIRECTORY"},
                  {.environment = {{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"}}});
  EXPECT_EQ(site.Await(id).sharing, "streams");
  EXPECT_THAT(site.Output(id), HasSubstr("pipes /dev/null"));
}

}  // namespace
}  // namespace carma::system_test
