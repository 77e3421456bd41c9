// Tests of the simulated MPS. The control daemon, the server and the clients are real processes,
// and the simulated server's clock runs fast.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "lab/simgpu/mps_client.h"
#include "lab/simgpu/mps_control.h"
#include "lab/simgpu/mps_server.h"
#include "lab/simgpu/process_fixture.h"
#include "lab/simgpu/server_fixture.h"

namespace carma::simgpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Ran {
  int code = 0;
  std::string out, err;
};

void AwaitEnd(pid_t pid) {
  const base::UniqueFd watch(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{watch.get(), POLLIN, 0};
  if (watch) ::poll(&ended, 1, -1);
}

class MpsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folders_ = {server_.folder() + "/pipe", server_.folder() + "/log"};
    auto server = Server::Attach(server_.path());
    ASSERT_TRUE(server);
    shared_ = std::move(*server);
  }
  void TearDown() override {
    Behave("");
    const pid_t daemon = DaemonPid();
    if (daemon <= 0) return;
    Do("quit -t 0");
    AwaitEnd(daemon);
  }

  Ran Finish(Process& process) {
    const int code = process.Wait();
    return {code, process.out(), process.err()};
  }
  Ran StartDaemon() {
    Process process([this] { return StartMpsDaemon(folders_, false, options_); });
    return Finish(process);
  }
  int Command(const std::string& lines) const {
    int ends[2];
    if (::pipe(ends) != 0 || !base::WriteAll(ends[1], lines)) return -1;
    ::close(ends[1]);
    ::dup2(ends[0], 0);
    ::close(ends[0]);
    return RunMpsCommands(folders_);
  }
  Ran Do(const std::string& lines) {
    Process process([this, &lines] { return Command(lines); });
    return Finish(process);
  }
  // The pid of the daemon; 0 if there is none.
  pid_t DaemonPid() const {
    const base::UniqueFd fd(::open(folders_.Lock().c_str(), O_RDONLY | O_CLOEXEC));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    const bool held = fd && ::fcntl(fd.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    return held ? lock.l_pid : 0;
  }
  // Waits for the daemon process to exit, which happens some time after it replies to "quit".
  void AwaitDaemonsEnd() {
    const base::UniqueFd fd(::open(folders_.Lock().c_str(), O_RDONLY | O_CLOEXEC));
    struct flock lock {};
    lock.l_type = F_RDLCK;
    ASSERT_TRUE(!fd || ::fcntl(fd.get(), F_SETLKW, &lock) == 0);
  }
  std::string ServerPid() { return std::string(base::Trim(Do("get_server_list").out)); }
  std::string Status() {
    return std::string(base::Trim(Do("get_server_status " + ServerPid()).out));
  }
  void Behave(const std::string& words) {
    std::filesystem::create_directories(folders_.pipes);
    ASSERT_TRUE(base::WriteFileAtomic(folders_.BehaviourFile(), words));
  }

  TrainingOptions Task() const {
    TrainingOptions options;
    options.state_path = server_.path();
    options.mps_pipes = folders_.pipes;
    options.memory_mib = {8'000};
    options.solo_s = 1e7;  // a hundred real seconds, so the task exits only if a test stops it
    options.epochs = 10'000;
    options.crash_s = 0;
    return options;
  }
  // Waits until the server has noticed that its clients have exited, and returns its status.
  std::string StatusAfterEnds() {
    for (int i = 0; i < 500 && Status() != "ACTIVE"; ++i) ::sched_yield();
    return Status();
  }
  static void AwaitWork(Process& task) { ASSERT_TRUE(task.ReadUntil("epoch 1/")); }

  MpsDaemonOptions options_;
  // The clock is fast enough for epochs of a thousand simulated seconds.
  TestServer server_{"2xA100-40GB", {.time_scale = 100'000}};
  std::unique_ptr<Server> shared_;
  MpsFolders folders_;
};

TEST_F(MpsTest, TheControlDaemonAnswersItsCommands) {
  EXPECT_EQ(Do("get_server_list").code, 1);
  EXPECT_THAT(Do("get_server_list").err, HasSubstr("Cannot find MPS control daemon process"));
  const Ran started = StartDaemon();
  ASSERT_EQ(started.code, 0) << started.err;
  EXPECT_EQ(StartDaemon().code, 1);
  EXPECT_THAT(StartDaemon().err, HasSubstr("already running"));
  EXPECT_EQ(Do("get_server_list").out, "");
  EXPECT_EQ(Do("start_server -uid " + std::to_string(::geteuid())).out, "");
  const std::string server = ServerPid();
  EXPECT_GT(base::ParseInt(server).value_or(0), 0);
  struct Case {
    std::string command, answer;
  };
  const Case cases[] = {
      {"get_server_status " + server, "ACTIVE"},
      {"get_server_status 1", "Server 1 not found"},
      {"get_client_list 1", "Server 1 not found"},
      {"get_client_list " + server, ""},
      {"terminate_client " + server + " 1", "Invalid process 1!\n1"},
      {"terminate_client 1 1", "Server 1 not found\nServer 1 not found!\n1"},
      {"terminate_client 1", "expected 2 arguments"},
      {"start_server -uid all", "A user id (UID) is required"},
      {"start_server -uid 0", ""},
      {"quit now", "expected no argument or -t SECONDS"},
      {"make_coffee", "Unknown command \"make_coffee\""},
  };
  for (const Case& c : cases) {
    const Ran ran = Do(c.command);
    EXPECT_EQ(ran.code, 0) << c.command;
    EXPECT_THAT(ran.out, HasSubstr(c.answer)) << c.command;
  }
  EXPECT_EQ(Do("get_server_list\n\nget_client_list 1\n").out, server + "\nServer 1 not found\n");
  const pid_t daemon = DaemonPid();
  EXPECT_EQ(Do("quit").code, 0);
  AwaitEnd(daemon);
  EXPECT_TRUE(base::Exists(folders_.Control())) << "NVIDIA's daemon leaves it behind too";
  EXPECT_TRUE(base::Exists(folders_.Lock()));
  EXPECT_FALSE(base::Exists(folders_.LogFifo()));
  EXPECT_FALSE(base::Exists(folders_.PidFile()));
  EXPECT_THAT(base::ReadFile(folders_.logs + "/control.log", 100'000).value_or(""),
              AllOf(HasSubstr("Starting new server " + server),
                    HasSubstr("NEW SERVER " + server + ": Ready")));
}

TEST_F(MpsTest, Branch535HasNoPidFileAndNoState) {
  Behave("r535");
  ASSERT_EQ(StartDaemon().code, 0);
  EXPECT_FALSE(base::Exists(folders_.PidFile()));
  EXPECT_EQ(Do("start_server -uid " + std::to_string(::geteuid())).out, "");
  EXPECT_EQ(Do("get_server_status " + ServerPid()).out, "Unknown command \"get_server_status\"\n");
  EXPECT_EQ(StartDaemon().code, 1) << "the lock shows that a daemon is running";
  EXPECT_EQ(Do("quit").code, 0);
}

TEST_F(MpsTest, AFolderInPlaceOfTheFifoDisablesAllLogs) {
  std::filesystem::create_directories(folders_.LogFifo());
  ASSERT_EQ(StartDaemon().code, 0);
  EXPECT_EQ(Do("get_server_list").code, 0);
  EXPECT_FALSE(base::Exists(folders_.logs + "/control.log"));
}

TEST_F(MpsTest, ATaskIsAClientIfADaemonAnswersAndOtherwiseRunsWithoutMps) {
  Process alone(Task());
  AwaitWork(alone);
  EXPECT_EQ(shared_->Residents()->at(0).sharing, core::SharingMethod::kStreams);
  alone.Kill(SIGTERM);
  EXPECT_EQ(alone.Wait(), 143);
  ASSERT_EQ(StartDaemon().code, 0);
  Process client(Task());
  AwaitWork(client);
  EXPECT_EQ(shared_->Residents()->at(0).sharing, core::SharingMethod::kMps);
  const std::string server = ServerPid();
  EXPECT_EQ(Do("get_client_list " + server).out, std::to_string(client.pid()) + "\n");
  client.Kill(SIGTERM);
  EXPECT_EQ(client.Wait(), 143);
  EXPECT_EQ(Do("get_client_list " + server).out, "");
  EXPECT_EQ(ServerPid(), server) << "a client's regular exit does not affect other clients";
}

TEST_F(MpsTest, AResidentServerIsListedOnTheGpu) {
  Behave("resident");
  ASSERT_EQ(StartDaemon().code, 0);
  Process client(Task());
  AwaitWork(client);
  const std::string server = ServerPid();
  EXPECT_EQ(Status(), "ACTIVE");  // the server handles its clients before it replies
  std::vector<ProcessLook> others, clients;
  ASSERT_TRUE(shared_->Processes(0, core::SharingMethod::kStreams, others));
  ASSERT_TRUE(shared_->Processes(0, core::SharingMethod::kMps, clients));
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(std::to_string(others[0].pid), server);
  EXPECT_EQ(others[0].memory_mib, kMpsServerMib);
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].pid, client.pid());
  EXPECT_EQ(base::ReadProcessStat(others[0].pid)->command, "nvidia-cuda-mps");
  client.Kill(SIGTERM);
  client.Wait();
  const pid_t daemon = DaemonPid();
  EXPECT_EQ(Do("quit").code, 0);
  AwaitEnd(daemon);
  EXPECT_THAT(*shared_->Residents(), IsEmpty());
}

TEST_F(MpsTest, AClientGetsNoMoreMemoryThanItsLimit) {
  ::setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=9000M", 1);
  ASSERT_EQ(StartDaemon().code, 0);
  ::unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  Process neighbour(Task());
  AwaitWork(neighbour);
  TrainingOptions greedy = Task();
  greedy.visible_devices = shared_->places()[0].uuid;
  greedy.mps_memory_limits = {{0, 100}, {1, 100}};  // ignored, because the client sees only one GPU
  greedy.memory_mib = {10'000};
  Process over(greedy);
  EXPECT_EQ(over.Wait(), 1);
  EXPECT_THAT(over.err(), HasSubstr("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
                                    "3.91 GiB. GPU 0 has a total capacity of 8.79 GiB of which "
                                    "2.93 GiB is free."));
  greedy.mps_memory_limits = {{0, 5'000}};
  greedy.memory_mib = {4'000};
  greedy.grow_at = 1e-9;
  greedy.grow_mib = 2'000;
  Process late(greedy);
  EXPECT_EQ(late.Wait(), 1);
  EXPECT_THAT(late.err(), HasSubstr("total capacity of 4.88 GiB"));
  EXPECT_TRUE(neighbour.Runs());
  EXPECT_EQ(shared_->Look(0)->used_mib, 8'000);
}

TEST_F(MpsTest, AThreadPercentageCapsActivityAndSpeed) {
  ASSERT_EQ(StartDaemon().code, 0);
  TrainingOptions half = Task();
  half.sm_active = {0.8};
  half.mps_thread_percentage = 50;
  Process task(half);
  AwaitWork(task);
  EXPECT_NEAR(shared_->Residents()->at(0).pace, 0.5 / 0.8, 1e-9);
  EXPECT_NEAR(shared_->Look(0)->sm_active, 0.5, 1e-9);
}

TEST_F(MpsTest, EachClientNeedsAPartitionIfTheDaemonDividesTheSms) {
  const std::string gpu = shared_->places()[0].uuid;
  EXPECT_EQ(StartDaemon().code, 0);
  EXPECT_THAT(Do("lspart").out, HasSubstr("Unknown command")) << "partitions are off";
  Do("quit -t 0");
  AwaitDaemonsEnd();
  options_.partitions = true;
  ::setenv("CUDA_VISIBLE_DEVICES", gpu.c_str(), 1);
  ASSERT_EQ(StartDaemon().code, 0);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  Process refused(Task());
  EXPECT_EQ(refused.Wait(), 1);
  EXPECT_THAT(refused.err(), HasSubstr("invalid resource configuration"));

  const std::string said = Do("sm_partition add " + gpu.substr(0, 8) + " 18").out;
  ASSERT_TRUE(said.starts_with("Partition " + gpu + "/") && said.ends_with(" created\n")) << said;
  const std::string name = said.substr(10, said.size() - 10 - 9);
  EXPECT_THAT(Do("sm_partition add " + gpu + " 10").out,
              HasSubstr("CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"))
      << "9 are left";
  TrainingOptions options = Task();
  options.sm_active = {0.8};
  options.mps_partition = name;
  options.mps_thread_percentage = 10;  // has no effect if there is a partition
  Process client(options);
  AwaitWork(client);
  EXPECT_NEAR(shared_->Residents()->at(0).pace, 72.0 / 108 / 0.8, 1e-9);
  EXPECT_THAT(Do("lspart").out, ::testing::ContainsRegex(" 18 +72 +Yes"));
  const std::string remove = "sm_partition rm " + gpu + " " + name.substr(gpu.size() + 1);
  EXPECT_THAT(Do(remove).out, HasSubstr("in use"));
  client.Kill(SIGTERM);
  EXPECT_EQ(client.Wait(), 143);
  EXPECT_EQ(Do(remove).out, "");
  EXPECT_THAT(Do("lspart").out, ::testing::ContainsRegex(" 27 +0 +108 +0"));
}

TEST_F(MpsTest, AClientSeesTheGpusOfItsServer) {
  ::setenv("CUDA_VISIBLE_DEVICES", shared_->places()[1].uuid.c_str(), 1);
  ASSERT_EQ(StartDaemon().code, 0);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  for (const std::string& visible : {std::string("0"), shared_->places()[1].uuid}) {
    TrainingOptions options = Task();
    options.visible_devices = visible;
    options.mps_memory_limits = {{0, 8'000}};
    Process task(options);
    AwaitWork(task);
    EXPECT_EQ(shared_->Look(0)->used_mib, 0) << visible;
    EXPECT_EQ(shared_->Look(1)->used_mib, 8'000) << visible;
    task.Kill(SIGTERM);
    EXPECT_EQ(task.Wait(), 143);
  }
  TrainingOptions elsewhere = Task();
  elsewhere.visible_devices = shared_->places()[0].uuid;
  Process task(elsewhere);
  EXPECT_EQ(task.Wait(), 1);
  EXPECT_THAT(task.err(), HasSubstr("No CUDA GPUs are available"));
}

TEST_F(MpsTest, AFaultEndsAllClientsOnTheGpuAndRefusesNewOnesUntilTheyAreGone) {
  ASSERT_EQ(StartDaemon().code, 0);
  TrainingOptions slow = Task();
  slow.crash_s = 1e9;  // keeps running after the fault until it is killed
  Process victim(slow);
  AwaitWork(victim);
  TrainingOptions broken = Task();
  broken.fault_at = 0;
  Process culprit(broken);
  EXPECT_EQ(culprit.Wait(), 1);
  EXPECT_THAT(culprit.err(), HasSubstr("CUDA error: an illegal memory access was encountered"));
  EXPECT_EQ(shared_->XidsFrom(0)->events, (std::vector<XidEvent>{{0, 31}}));
  EXPECT_EQ(Status(), "FAULT");
  Process late(Task());
  EXPECT_EQ(late.Wait(), 1);
  EXPECT_THAT(late.err(), HasSubstr("MPS server is not ready to accept new MPS client requests"));
  victim.Kill(SIGKILL);
  EXPECT_EQ(victim.Wait(), -SIGKILL);
  EXPECT_EQ(StatusAfterEnds(), "ACTIVE");
  Process quick(Task());
  AwaitWork(quick);
  Process second(broken);
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_EQ(quick.Wait(), 1);
  EXPECT_THAT(quick.err(), HasSubstr("CUDA error: an illegal memory access was encountered"))
      << "the same error as the culprit's";
  Behave("vague-error");
  Process third(Task());
  AwaitWork(third);
  Process last(broken);
  EXPECT_EQ(last.Wait(), 1);
  EXPECT_EQ(third.Wait(), 1);
  EXPECT_THAT(third.err(), HasSubstr("CUDA error: unspecified launch failure"));
}

TEST_F(MpsTest, AFaultSparesTheClientsOnOtherGpusOfItsServer) {
  ASSERT_EQ(StartDaemon().code, 0);
  TrainingOptions elsewhere = Task();
  elsewhere.visible_devices = shared_->places()[1].uuid;
  Process spared(elsewhere);
  AwaitWork(spared);
  TrainingOptions broken = Task();
  broken.fault_at = 0;
  Process culprit(broken);
  EXPECT_EQ(culprit.Wait(), 1);
  EXPECT_EQ(StatusAfterEnds(), "ACTIVE") << "no other client is affected";
  EXPECT_EQ(shared_->Look(1)->used_mib, 8'000);
  spared.Kill(SIGTERM);
  EXPECT_EQ(spared.Wait(), 143);
}

TEST_F(MpsTest, TerminatingAClientIsSafeButKillingItIsNot) {
  ASSERT_EQ(StartDaemon().code, 0);
  Process neighbour(Task());
  AwaitWork(neighbour);
  const std::string server = ServerPid();
  const auto terminate = [&](const Process& task) {
    EXPECT_EQ(Do("terminate_client " + server + " " + std::to_string(task.pid())).out, "0\n");
  };
  TrainingOptions deaf = Task();
  deaf.ignore_term = true;
  Process told(deaf);
  AwaitWork(told);
  terminate(told);
  EXPECT_EQ(told.Wait(), 1);
  EXPECT_THAT(told.err(), HasSubstr("the MPS client has been terminated by the server"));
  deaf.hang_at = 0;
  Process hanging(deaf);
  const auto hangs = [](const ResidentLook& resident) { return resident.pace == 0; };
  while (shared_->Look(0)->used_mib < 16'000 ||
         !std::ranges::any_of(*shared_->Residents(), hangs)) {
  }
  terminate(hanging);
  // The hanging client's context is destroyed. The program itself continues, because it makes no
  // CUDA call that would fail.
  while (shared_->Look(0)->used_mib > 8'000) {
  }
  EXPECT_TRUE(hanging.Runs());
  hanging.Kill(SIGKILL);
  hanging.Wait();
  EXPECT_EQ(Status(), "ACTIVE");
  Behave("tolerant");
  Process lucky(Task());
  AwaitWork(lucky);
  lucky.Kill(SIGKILL);
  lucky.Wait();
  EXPECT_EQ(Status(), "ACTIVE");
  EXPECT_TRUE(neighbour.Runs());
  Behave("");
  Process killed(Task());
  AwaitWork(killed);
  killed.Kill(SIGKILL);
  EXPECT_EQ(neighbour.Wait(), 1);
  EXPECT_THAT(neighbour.err(), HasSubstr("MPS server and the MPS client failed"));
  while (ServerPid() == server) {  // the server takes a moment to exit
  }
}

TEST_F(MpsTest, AKilledServerIsReplacedAndAKilledDaemonCanBeStartedAgain) {
  ASSERT_EQ(StartDaemon().code, 0);
  Process first(Task());
  AwaitWork(first);
  const std::string server = ServerPid();
  ::kill(static_cast<pid_t>(base::ParseInt(server).value_or(0)), SIGKILL);
  EXPECT_EQ(first.Wait(), 1);
  EXPECT_THAT(first.err(), HasSubstr("MPS server and the MPS client failed"));
  while (ServerPid() == server) {  // the daemon takes a moment to notice that the server exited
  }
  Process second(Task());
  AwaitWork(second);
  const pid_t daemon = DaemonPid();
  ::kill(daemon, SIGKILL);
  AwaitEnd(daemon);
  EXPECT_EQ(Do("get_server_list").code, 1);
  Process third(Task());
  AwaitWork(third);
  EXPECT_EQ(shared_->Residents()->at(1).sharing, core::SharingMethod::kStreams);
  EXPECT_TRUE(second.Runs()) << "a server outlives its daemon";
  EXPECT_EQ(StartDaemon().code, 0);
  EXPECT_EQ(Do("get_server_list").out, "");
}

TEST_F(MpsTest, QuitWaitsForClientsUntilAnotherQuitEndsThem) {
  ASSERT_EQ(StartDaemon().code, 0);
  Process task(Task());
  AwaitWork(task);
  Process quit([this] { return Command("quit"); });
  while (!base::ReadFile(folders_.logs + "/control.log", 100'000)->contains("Asked to quit")) {
  }
  TrainingOptions options = Task();
  Process late(options);
  EXPECT_EQ(late.Wait(), 1);
  EXPECT_THAT(late.err(), HasSubstr("MPS client failed to connect"));
  EXPECT_TRUE(quit.Runs());
  EXPECT_EQ(Do("quit -t 0").code, 0);
  EXPECT_EQ(quit.Wait(), 0);
  EXPECT_EQ(task.Wait(), 1);
}

TEST_F(MpsTest, MisbehavesOnRequest) {
  Behave("refuse-start");
  EXPECT_EQ(StartDaemon().code, 1);
  const MpsFolders other = {server_.folder() + "/other", server_.folder() + "/log"};
  std::filesystem::create_directories(other.pipes);
  ASSERT_TRUE(base::WriteFileAtomic(other.BehaviourFile(), "hang-start\n"));
  Process stuck([&other] { return StartMpsDaemon(other, false, {}); });
  Behave("tolerant,server-fails");
  ASSERT_EQ(StartDaemon().code, 0);
  EXPECT_EQ(Do("start_server -uid " + std::to_string(::geteuid())).out, "");
  EXPECT_EQ(ServerPid(), "");
  EXPECT_THAT(base::ReadFile(folders_.logs + "/server.log", 100'000).value_or(""),
              HasSubstr("Failed to start"));
  struct Case {
    const char* word;
    const char* text;
  };
  for (const Case& c :
       {Case{"server-fails", "MPS server is not ready"}, Case{"fault", "MPS server is not ready"},
        Case{"full", "the hardware resources required to create MPS client"}}) {
    Behave(c.word);
    Process task(Task());
    EXPECT_EQ(task.Wait(), 1) << c.word;
    EXPECT_THAT(task.err(), HasSubstr(c.text)) << c.word;
  }
  Behave("fault");
  EXPECT_EQ(Status(), "FAULT");
  Behave("hang");
  Process hangs([this] { return Command("get_server_list"); });
  MpsError refused = MpsError::kNone;
  // The daemon serves its peers one after another, so by the time it answers Status(), it has also
  // served the killed client.
  Process waits([&] { return MpsClient::Join(folders_.pipes, "", refused) ? 0 : 1; });
  waits.Kill(SIGKILL);
  waits.Wait();
  Behave("");
  EXPECT_EQ(Status(), "ACTIVE");
  Behave("crash");
  const pid_t daemon = DaemonPid();
  EXPECT_EQ(Do("get_server_list").code, 1);
  AwaitEnd(daemon);
  EXPECT_TRUE(stuck.Runs());
}

TEST(MpsWire, ParsesLimitsPercentagesAndWelcomes) {
  EXPECT_EQ(*ParseMpsMemoryLimits("0=6144M, 3=2G"), (MpsMemoryLimits{{0, 6'144}, {3, 2'048}}));
  EXPECT_TRUE(ParseMpsMemoryLimits("")->empty());
  for (const char* wrong : {"6144M", "x=1G", "-1=1G", "64=1G", "0=", "0=1G,,"})
    EXPECT_FALSE(ParseMpsMemoryLimits(wrong)) << wrong;
  EXPECT_EQ(ParseMpsPercentage("12.5").value_or(0), 12.5);
  for (const char* wrong : {"0", "101", "", "nan", "5%"})
    EXPECT_FALSE(ParseMpsPercentage(wrong)) << wrong;
  const MpsWelcome welcomes[] = {
      {100, {}, std::nullopt}, {12.5, {{0, 100}, {1, 200}}, "GPU-1, GPU-2"}, {1, {}, ""}};
  for (const MpsWelcome& welcome : welcomes) {
    const auto read = ParseMpsWelcome(FormatMpsWelcome(welcome));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, welcome);
  }
  for (const char* wrong : {"", "welcome", "welcome threads=0 limits=", "error 807"})
    EXPECT_FALSE(ParseMpsWelcome(wrong)) << wrong;
}

}  // namespace
}  // namespace carma::simgpu
