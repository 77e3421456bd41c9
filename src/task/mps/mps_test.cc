#include "task/mps/mps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>

#include "base/pidfd.h"
#include "task/mps/fake_mps_test.h"
#include "task/mps/mps_child.h"
#include "task/mps/mps_control.h"

namespace carma::task {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr auto kPatience = std::chrono::seconds(20);

MpsControl::Deadline Soon(std::chrono::milliseconds span = kPatience) {
  return std::chrono::steady_clock::now() + span;
}

// ---- values ----

TEST(MpsFolders, AreShortEnoughForASocket) {
  const std::string dir(60, 'd');  // the longest that the configuration accepts
  const MpsServerId id{4'294'967'294, 1, "MIG-8f3a91c2-aaaa-bbbb-cccc-dddddddddddd"};
  EXPECT_LE((MpsPipeDir(dir, id) + "/control_privileged").size(), 107U);
  EXPECT_EQ(MpsPipeDir("/run/carma/mps", {1000, 1000, "GPU-8f3a91c2-0000-1111-2222-333344445555"}),
            "/run/carma/mps/1000/333344445555");
  EXPECT_EQ(MpsPipeDir("/m", {1000, 1000, "GPU-1-0000,GPU-8f3a91c2-0000-1111-2222-333344445555"}),
            "/m/1000/333344445555-2");
  EXPECT_EQ(MpsFolderName("GPU-../../x"), "GPUx") << "never a path";
  EXPECT_EQ(MpsFolderName("../.."), "gpu");
}

TEST(MpsServers, ASharedServerHasItsOwnNameAndFolder) {
  const MpsServerId one{1000, 100, "GPU-0"}, shared = SharedMpsServer("GPU-0");
  EXPECT_EQ(MpsServerName(one), "GPU-0");
  EXPECT_EQ(MpsServerNamed(1000, 100, "GPU-0"), one);
  EXPECT_EQ(MpsServerNamed(1000, 100, MpsServerName(shared)), shared) << "it is root's";
  EXPECT_EQ(shared.uid, 0U);
  EXPECT_EQ(MpsPipeDir("/m", shared), "/m/shared/GPU0");
  EXPECT_NE(MpsPipeDir("/m", shared), MpsPipeDir("/m", {0, 0, "GPU-0"}));
}

TEST(MpsEnvironment, HasTheFoldersAndOnlyTheExistingLimits) {
  const MpsServerId id{1000, 1000, "GPU-0"};
  core::Sharing sharing{.method = core::SharingMethod::kMps};
  EXPECT_THAT(MpsClientEnvironment("/m", id, sharing, false),
              UnorderedElementsAre(Pair("CUDA_MPS_PIPE_DIRECTORY", "/m/1000/GPU0"),
                                   Pair("CUDA_MPS_LOG_DIRECTORY", "/m/1000/GPU0.log"),
                                   Pair("CUDA_MPS_CLIENT_PRIORITY", "1")));
  sharing.memory_limit_mib = 6'144;
  sharing.thread_percent = 30;
  sharing.partition = "GPU-0/Dx4";
  const auto environment = MpsClientEnvironment("/m", id, sharing, true);
  EXPECT_EQ(environment.at("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=6144M");
  EXPECT_EQ(environment.at("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "30");
  EXPECT_EQ(environment.at("CUDA_MPS_SM_PARTITION"), "GPU-0/Dx4");
  EXPECT_EQ(environment.at("CUDA_MPS_CLIENT_PRIORITY"), "0") << "normal is the highest priority";
  EXPECT_TRUE(MpsLimitHolds("GPU-0"));
  EXPECT_FALSE(MpsLimitHolds("GPU-0,GPU-1")) << "CUDA ignores a list if only one GPU is visible";
  EXPECT_THAT(WithoutMpsEnvironment(), ElementsAre(Pair("CUDA_MPS_PIPE_DIRECTORY", "/dev/null")));
}

TEST(MpsEnvironment, IsNotInheritedFromATaskThatSubmitsAnother) {
  std::map<std::string, std::string> task = MpsClientEnvironment(
      "/m", {1000, 1000, "GPU-0"}, {.memory_limit_mib = 6'144, .thread_percent = 30}, false);
  task["APPTAINER_BIND"] = "/data,/m/1000/GPU0";
  task["HOME"] = "/home/ada";
  EraseInheritedMps("/m", task);
  EXPECT_THAT(task,
              UnorderedElementsAre(Pair("APPTAINER_BIND", "/data"), Pair("HOME", "/home/ada")));
  const std::map<std::string, std::string> own{{"CUDA_MPS_PIPE_DIRECTORY", "/mine"},
                                               {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"}};
  for (const char* dir : {"/m", ""}) {
    std::map<std::string, std::string> kept = own;
    EraseInheritedMps(dir, kept);
    EXPECT_EQ(kept, own) << "the user's own server";
  }
}

TEST(MpsAnswers, ParsesListsOfProcesses) {
  EXPECT_THAT(ParseMpsPids("").value(), ElementsAre());
  EXPECT_THAT(ParseMpsPids("4711\n\n 4712 \n").value(), ElementsAre(4711, 4712));
  for (const char* text : {"none", "4711 4712", "-1", "0", "99999999999", "Unknown command"})
    EXPECT_FALSE(ParseMpsPids(text)) << text;
  std::string many;
  for (int i = 0; i < 5'000; ++i) many += "1\n";
  EXPECT_FALSE(ParseMpsPids(many));
}

TEST(MpsAnswers, ParsesRowsOfProtocol3) {
  EXPECT_THAT(
      ParseMpsPids("51023,training,0,default,python a,b.py\n51087,training,0,x,c\n").value(),
      ElementsAre(51'023, 51'087));
  const auto rows = ParseMpsServerRows(
      "training,1000,48201,Ready,/run/nvidia-mps/training,GPU-abcd-1234,-\n"
      "uid_0,0,7,Initializing,/m,all,-\nx,1,8,FAULT,/m\n");
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[0].name, "training");
  EXPECT_EQ((*rows)[0].uid, 1'000U);
  EXPECT_EQ((*rows)[0].pid, 48'201);
  EXPECT_EQ((*rows)[0].state, MpsServerState::kActive);
  EXPECT_EQ((*rows)[1].state, MpsServerState::kStarting);
  EXPECT_EQ((*rows)[2].state, MpsServerState::kFault);
  EXPECT_TRUE(ParseMpsServerRows("")->empty());
  for (const char* text : {"none", "training,ada,1,Ready", "training,1000,48201"})
    EXPECT_FALSE(ParseMpsServerRows(text)) << text;
}

TEST(MpsAnswers, ParsesAServersState) {
  EXPECT_EQ(ParseMpsServerState("ACTIVE\n"), MpsServerState::kActive);
  EXPECT_EQ(ParseMpsServerState("INITIALIZING"), MpsServerState::kStarting);
  EXPECT_EQ(ParseMpsServerState("FAULT\n"), MpsServerState::kFault);
  EXPECT_EQ(ParseMpsServerState("Unknown command \"get_server_status\"\n"),
            MpsServerState::kUnknown);
  EXPECT_EQ(ParseMpsServerState("Server 12 not found\n").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ParseMpsServerState("").error().code, ErrorCode::kInvalid);
  EXPECT_THAT(ParseMpsServerState("on fire").error().message, HasSubstr("'on fire'"));
}

// NVIDIA's manual shows the first form of the table, and its programs print the second.
TEST(MpsAnswers, ParsesSmPartitions) {
  const std::string gpu = "GPU-74d43ed3-cdf7-e667-3644-bf5b4f46ed65";
  for (const char* text : {"GPU           Partition  free   used   free  used  clients\n"
                           "                         chunk  chunk  SM    SM\n"
                           "GPU-00000000  -          9      0      72    0     -\n"
                           "GPU-74d43ed3  -          3      7      24    56    -\n"
                           "GPU-74d43ed3  Dx4/AA+==  -      5      -     40    Yes\n"
                           "GPU-74d43ed3  Bx4AAAAAA  -      2      -     16    No\n",
                           "GPU Partition free used free used clients\nchunks chunks SM SM\n"
                           "GPU-0 9 0 72 0\nGPU-7 3 7 24 56\nGPU-7 Dx4/AA+== 5 40 Yes\n"
                           "GPU-7 Bx4AAAAAA 2 16 No\n"}) {
    const auto found = ParseMpsPartitions(text, gpu);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->free_chunks, 3);
    EXPECT_EQ(found->used_chunks, 7);
    ASSERT_EQ(found->partitions.size(), 2U);
    EXPECT_EQ(found->partitions[0].id, "Dx4/AA+==");
    EXPECT_EQ(found->partitions[0].sms, 40);
    EXPECT_TRUE(found->partitions[0].used);
    EXPECT_FALSE(found->partitions[1].used);
  }
  for (const char* text : {"", "Unknown command \"lspart\"", "GPU-1 3 7 24 56", "GPU-7 3 7 24",
                           "GPU-7 x 7 24 56", "GPU-7 3 -7 24 56", "GPU-7 3 7 24 maybe"})
    EXPECT_FALSE(ParseMpsPartitions(text, gpu)) << text;
  for (const std::string& text :
       {gpu + "/Dx4/AA+==\n", "Partition " + gpu + "/Dx4/AA+== created\n"})
    EXPECT_EQ(ParseMpsPartitionAdded(text, gpu).value(), "Dx4/AA+==");
  for (const std::string& text : {std::string("Failed to fulfill the requested SM partition of 28"),
                                  std::string(), gpu + "/", std::string("GPU-0/Dx4")})
    EXPECT_FALSE(ParseMpsPartitionAdded(text, gpu)) << text;
}

TEST(MpsPartitions, SharesThatFitTogetherAlsoFitAsChunks) {
  const MpsPartitions h100{.free_chunks = 9, .used_chunks = 6};  // 132 SMs in 15 chunks
  EXPECT_EQ(MpsChunks(0.5, h100), 7);
  EXPECT_EQ(MpsChunks(0.2, h100), 3) << "not 2 for 2.9999";
  EXPECT_EQ(MpsChunks(1, h100), 15);
  EXPECT_EQ(MpsChunks(0.01, h100), 1);
}

TEST(MpsAnswers, ParsesTheAnswerToATermination) {
  for (const char* text : {"", "\n", "0\n"}) EXPECT_TRUE(ParseMpsTermination(text)) << text;
  // Driver branches 535 and 550 reply like this and exit with 0.
  EXPECT_THAT(ParseMpsTermination("Server 12 not found\nServer 12 not found!\n1\n").error().message,
              HasSubstr("Server 12 not found"));
  for (const char* text : {"1", "Invalid process 7!\n1"})
    EXPECT_FALSE(ParseMpsTermination(text)) << text;
}

TEST(MpsLogTexts, BeginAfterTheBracket) {
  EXPECT_EQ(LastMpsLogText(""), "");
  EXPECT_EQ(LastMpsLogText("[2026-11-22 07:20:20.172 Other  3208] Startup\n"
                           "[2026-11-22 07:20:20.172 Other  3208] Failed to start : no device\n\n"),
            "Failed to start : no device");
  EXPECT_EQ(LastMpsLogText("no bracket\n"), "no bracket");
  const std::string log = "[2026-11-22 07:20:20.172 Control  8] NEW SERVER 12: Ready\n";
  EXPECT_TRUE(SaysMpsServerReady(log, 12));
  EXPECT_FALSE(SaysMpsServerReady(log, 1));
  EXPECT_TRUE(SaysMpsServerEnded(log + "[x Control 8] Server 12 exited with status 1\n"));
  EXPECT_FALSE(SaysMpsServerEnded(log));
  EXPECT_FALSE(SaysMpsServerReady("[x] NEW SERVER 12: Ignoring connection from user\n", 12));
}

TEST(MpsArguments, ParseBackUnchanged) {
  const MpsOrder order{"/m", {1000, 100, "GPU-0"}, {{"A", "x=y"}}, {"/bin/control", "-d"}};
  const auto back = ParseMpsArguments(ToArguments(order));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->dir, order.dir);
  EXPECT_EQ(back->id, order.id);
  EXPECT_EQ(back->environment, order.environment);
  EXPECT_EQ(back->argv, order.argv);
  for (const std::vector<std::string>& bad : {std::vector<std::string>{},
                                              {"/m", "1000", "100", "GPU-0", "--"},
                                              {"m", "1000", "100", "GPU-0", "--", "/c"},
                                              {"/m", "x", "100", "GPU-0", "--", "/c"},
                                              {"/m", "4294967295", "100", "GPU-0", "--", "/c"},
                                              {"/m", "1000", "100", "GPU-0", "--", "control"},
                                              {"/m", "1000", "100", "GPU-0", "word", "--", "/c"}})
    EXPECT_FALSE(ParseMpsArguments(bad));
}

// ---- the control program ----

class MpsControlTest : public ::testing::Test {
 protected:
  MpsControl Control() const { return {fake_.setup, fake_.id}; }
  FakeMps fake_;
};

TEST_F(MpsControlTest, StartsDaemonAndServerOnceAndEndsThem) {
  const MpsControl control = Control();
  EXPECT_FALSE(control.Daemon());
  EXPECT_FALSE(control.Look(Soon()).value());
  const auto server = control.Ready(Soon());
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_EQ(server->state, MpsServerState::kActive);
  const auto daemon = control.Daemon();
  ASSERT_TRUE(daemon);
  EXPECT_EQ(control.Ready(Soon())->process, server->process);
  EXPECT_EQ(*control.Daemon(), *daemon);
  EXPECT_THAT(FindMpsServers(fake_.setup, {"GPU-other", fake_.id.gpus}), ElementsAre(fake_.id));
  for (const char* file : {"/runs", "/asked", "/variables"}) fake_.Remove(file);
  control.Quit(Soon());
  EXPECT_FALSE(control.Daemon());
  EXPECT_FALSE(base::Alive(*daemon));
  EXPECT_THAT(FindMpsServers(fake_.setup, {fake_.id.gpus}), ElementsAre());
}

TEST_F(MpsControlTest, ASharedServerNeedsAProgramThatSupportsIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  fake_.id = SharedMpsServer(fake_.id.gpus);
  fake_.Write("/help", "  -d,--daemon    Setup the daemon in the background\n");
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("driver branch 580 or newer"));
  EXPECT_THAT(fake_.Read("/runs"), Not(HasSubstr("-d"))) << "the daemon is not started";
  fake_.Write("/help", "  -M,--multiuser-server    Enable multi-user mode\n");
  const auto server = Control().Ready(Soon());
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_THAT(fake_.Read("/runs"), HasSubstr("-d --multiuser-server\n"));
  EXPECT_THAT(fake_.Read("/asked"), HasSubstr("start_server -uid 0\n"));
  struct stat st {};
  ASSERT_EQ(::stat(fake_.Pipes().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0711U) << "all users may pass through";
  EXPECT_THAT(FindMpsServers(fake_.setup, {fake_.id.gpus}), ElementsAre(fake_.id));
  for (const char* file : {"/runs", "/asked", "/variables", "/help"}) fake_.Remove(file);
  Control().Quit(Soon());
}

TEST_F(MpsControlTest, TheDaemonInheritsNothingOfOurEnvironment) {
  ::setenv("CARMA_TEST_SECRET", "1", 1);
  ::setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10", 1);
  ::setenv("CUDA_MPS_PROTOCOL_VERSION", "3", 1);
  const auto server = Control().Ready(Soon());
  ::unsetenv("CARMA_TEST_SECRET");
  ::unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  ::unsetenv("CUDA_MPS_PROTOCOL_VERSION");
  ASSERT_TRUE(server) << server.error().message;
  const std::string variables = fake_.Read("/variables");
  EXPECT_THAT(variables, Not(HasSubstr("CARMA_TEST_SECRET")));
  EXPECT_THAT(variables, Not(HasSubstr("THREAD_PERCENTAGE")));
  EXPECT_THAT(variables, HasSubstr("CUDA_VISIBLE_DEVICES=" + fake_.id.gpus + "\n"));
  EXPECT_THAT(variables, HasSubstr("CUDA_MPS_PIPE_DIRECTORY=" + fake_.Pipes() + "\n"));
  EXPECT_THAT(variables, HasSubstr("CUDA_MPS_PROTOCOL_VERSION=2\n"));
  EXPECT_THAT(variables, HasSubstr("EXTRA=1\n"));
  struct stat st {};
  ASSERT_EQ(::stat(fake_.Pipes().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700U);
}

TEST_F(MpsControlTest, AKnownServerIsQueriedWithoutAList) {
  const auto server = Control().Ready(Soon());
  ASSERT_TRUE(server);
  const std::string pid = std::to_string(server->process.pid);
  const std::string query = "get_server_status " + pid + " \nget_client_list " + pid + " \n";
  fake_.Remove("/asked");
  EXPECT_EQ(Control().Look(Soon(), server->process)->value().process, server->process);
  EXPECT_EQ(fake_.Read("/asked"), query);
  fake_.Remove("/asked");
  EXPECT_EQ(Control().Look(Soon(), base::ProcessId{})->value().process, server->process);
  EXPECT_EQ(fake_.Read("/asked"), "get_server_list  \n" + query);
}

TEST_F(MpsControlTest, EndsClients) {
  const auto server = Control().Ready(Soon());
  ASSERT_TRUE(server);
  fake_.Write("/clients", "4711\n4712\n");
  EXPECT_THAT(Control().Look(Soon())->value().clients.value(), ElementsAre(4711, 4712));
  EXPECT_TRUE(Control().TerminateClient(*server, 4712, Soon()));
  EXPECT_EQ(fake_.Read("/terminated"), std::to_string(server->process.pid) + " 4712\n");
  fake_.Write("/terminate", "Invalid process 4713!\n1\n");
  EXPECT_THAT(Control().TerminateClient(*server, 4713, Soon()).error().message,
              HasSubstr("Invalid process 4713!"));
}

TEST_F(MpsControlTest, ReportsEveryFailureInASentence) {
  MpsControl missing({fake_.setup.shim_path, "/no/such/control", fake_.setup.dir, {}}, fake_.id);
  EXPECT_THAT(missing.Ready(Soon()).error().message,
              HasSubstr("program /no/such/control not found"));
  MpsControl nowhere({fake_.setup.shim_path, "no-such-control", fake_.setup.dir, {}}, fake_.id);
  EXPECT_EQ(nowhere.Ready(Soon()).error().message,
            "program 'no-such-control' not found in carmad's $PATH (collocation.mps_control)");
  MpsControl silent({fake_.setup.shim_path, "/bin/false", fake_.setup.dir, {}}, fake_.id);
  EXPECT_THAT(silent.Ready(Soon()).error().message,
              HasSubstr("exited with code 1 and printed nothing"));
  fake_.Write("/refuse");
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("no MPS on this device"));
  fake_.Remove("/refuse");
  fake_.Write("/ends");
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("no room for it"));
  fake_.Remove("/ends");
  ASSERT_TRUE(Control().Ready(Soon()));
  fake_.Write("/status", "FAULT\n");
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("faulted state"));
  fake_.Write("/status", "what?\n");
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("'what?'"));
  fake_.Write("/status", "INITIALIZING\n");
  EXPECT_THAT(Control().Ready(Soon(std::chrono::seconds(1))).error().message,
              AnyOf(HasSubstr("did not start in time"), HasSubstr("did not respond in time")))
      << "the limit may also end the last question";
}

TEST_F(MpsControlTest, TriesADaemonAndEndsIt) {
  // A daemon without a server replies like this.
  fake_.Write("/status", "Server 1 not found\n");
  const auto abilities = Control().Try(Soon());
  ASSERT_TRUE(abilities) << abilities.error().message;
  EXPECT_TRUE(abilities->tells_state);
  EXPECT_TRUE(abilities->logs);
  EXPECT_FALSE(Control().Daemon());
  EXPECT_THAT(fake_.Read("/asked"), Not(HasSubstr("start_server")));
  fake_.Write("/status", "Unknown command \"get_server_status\"\n");
  EXPECT_FALSE(Control().Try(Soon())->tells_state);
  fake_.Write("/status", "what?\n");
  EXPECT_THAT(Control().Try(Soon()).error().message, HasSubstr("'what?'"));
  EXPECT_FALSE(Control().Daemon());
  fake_.Write("/refuse");
  EXPECT_THAT(Control().Try(Soon()).error().message, HasSubstr("no MPS on this device"));
}

TEST_F(MpsControlTest, ReportsAFailedServerAtOnceWithItsReason) {
  fake_.Write("/no-server");
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("see " + fake_.Logs()));
  fake_.Write("/reason", "Failed to start : no device");
  EXPECT_THAT(Control().Ready(Soon()).error().message,
              HasSubstr("exited during startup: Failed to start : no device"));
}

// Driver branches before 550 reply like this.
TEST_F(MpsControlTest, AServerWithoutAStateQueryIsReadyAccordingToItsLog) {
  fake_.Write("/status", "Unknown command \"get_server_status\"\n");
  const auto server = Control().Ready(Soon());
  ASSERT_TRUE(server) << server.error().message;
  EXPECT_EQ(server->state, MpsServerState::kUnknown);
  EXPECT_TRUE(Control().Ready(Soon())) << "the server is already running";
  Control().Quit(Soon());
  fake_.Write("/ready", "Startup");
  constexpr auto kLimit = std::chrono::seconds(5);  // the daemon's start needs a part of it
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(Control().Ready(Soon(kLimit))) << "clients wait for it";
  EXPECT_GE(std::chrono::steady_clock::now() - before, kLimit);
}

TEST_F(MpsControlTest, GivesUpAHangingDaemonAndKillsIt) {
  ASSERT_TRUE(Control().Ready(Soon()));
  const auto daemon = Control().Daemon();
  fake_.Write("/hang");
  const auto before = std::chrono::steady_clock::now();
  EXPECT_THAT(Control().Ready(Soon(std::chrono::milliseconds(200))).error().message,
              HasSubstr("did not respond in time"));
  Control().Quit(Soon(std::chrono::milliseconds(200)));
  EXPECT_LT(std::chrono::steady_clock::now() - before, kPatience);
  EXPECT_FALSE(base::Alive(*daemon));
}

TEST_F(MpsControlTest, KillsADaemonThatStartsAfterTheDeadline) {
  fake_.Write("/late");
  EXPECT_THAT(Control().Ready(Soon(std::chrono::milliseconds(500))).error().message,
              HasSubstr("did not respond in time"));
  EXPECT_NE(fake_.Read("/daemon"), "") << "it has come";
  EXPECT_FALSE(Control().Daemon());
}

TEST_F(MpsControlTest, IgnoresFilesOfADeadDaemon) {
  fake_.Write("/nvidia-cuda-mps-control.pid", std::to_string(::getpid()) + "\n");
  fake_.Write("/control_lock");
  EXPECT_FALSE(Control().Daemon());
  EXPECT_FALSE(MpsLockHolder(fake_.Pipes()));
  Control().Quit(Soon());
  EXPECT_FALSE(base::Exists(fake_.Pipes())) << "they go";
}

TEST_F(MpsControlTest, IgnoresALockOfAnotherUser) {
  ASSERT_TRUE(Control().Ready(Soon()));
  ASSERT_TRUE(Control().Daemon());
  MpsServerId other = fake_.id;
  other.uid = 4'000'000'000;
  ASSERT_EQ(::symlink((fake_.setup.dir + "/" + std::to_string(fake_.id.uid)).c_str(),
                      (fake_.setup.dir + "/4000000000").c_str()),
            0);
  EXPECT_TRUE(MpsLockHolder(MpsPipeDir(fake_.setup.dir, other)));
  EXPECT_FALSE(MpsControl(fake_.setup, other).Daemon());
  EXPECT_EQ(MpsLogs(fake_.setup.dir, other).Mark().control, 0) << "links are not followed";
}

// A daemon logs several lines for each query.
TEST_F(MpsControlTest, TheLogsDoNotGrowForEver) {
  ASSERT_TRUE(Control().Ready(Soon()));
  const std::string log = fake_.Logs() + "/control.log";
  std::ofstream(log, std::ios::app) << std::string(9 << 20, 'x') << "\n";
  const MpsLogs logs(fake_.setup.dir, fake_.id);
  const MpsLogMark mark = logs.Mark();
  EXPECT_GT(mark.control, 9 << 20);
  EXPECT_LE(logs.ControlSince({}).size(), 64U << 10);
  ASSERT_TRUE(Control().Look(Soon()));
  EXPECT_EQ(logs.Mark().control, 0);
  std::ofstream(log, std::ios::app) << "[x] later\n";
  EXPECT_EQ(LastMpsLogText(logs.ControlSince(mark)), "later");
}

TEST_F(MpsControlTest, FollowsNoLinkOfAUser) {
  ASSERT_TRUE(base::MakeDirs(fake_.setup.dir + "/" + std::to_string(fake_.id.uid), 0700));
  ASSERT_TRUE(base::MakeDirs(fake_.root() + "/elsewhere", 0755));
  ASSERT_EQ(::symlink((fake_.root() + "/elsewhere").c_str(), fake_.Pipes().c_str()), 0);
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("cannot open the folder"));
}

TEST_F(MpsControlTest, RefusesAFolderThatOthersMayWriteTo) {
  ASSERT_TRUE(base::MakeDirs(fake_.setup.dir, 0777));
  ::chmod(fake_.setup.dir.c_str(), 0777);
  EXPECT_THAT(Control().Ready(Soon()).error().message, HasSubstr("must not be writable by others"));
}

// Only root can become another user.
TEST_F(MpsControlTest, TheDaemonRunsAsTheUser) {
  const passwd* nobody = ::getpwnam("nobody");
  if (::getuid() != 0 || nobody == nullptr) GTEST_SKIP() << "needs root";
  fake_.id.uid = nobody->pw_uid;
  fake_.id.gid = nobody->pw_gid;
  const auto server = Control().Ready(Soon());
  ASSERT_TRUE(server) << server.error().message;
  struct stat st {};
  ASSERT_EQ(::stat(("/proc/" + std::to_string(server->process.pid)).c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, nobody->pw_uid);
  ASSERT_EQ(::stat(fake_.Pipes().c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, nobody->pw_uid);
  ASSERT_EQ(::stat(fake_.setup.dir.c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 0U);
  EXPECT_THAT(fake_.Read("/variables"), HasSubstr("HOME=" + std::string(nobody->pw_dir) + "\n"));
  const base::UniqueFd pidfd = base::OpenPidfd(server->process.pid);
  Control().Quit(Soon());
  // The stand-in's server is not a child of its daemon, so no process waits for it to exit.
  pollfd ended{pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 20'000), 1);
}

TEST(MpsChild, ServesOnlyItselfWithoutRoot) {
  if (::getuid() == 0) GTEST_SKIP() << "needs an ordinary user";
  FakeMps fake;
  fake.id.uid = 0;
  const auto server = MpsControl(fake.setup, fake.id).Ready(Soon());
  EXPECT_THAT(server.error().message, HasSubstr("does not run as root"));
}

}  // namespace
}  // namespace carma::task
