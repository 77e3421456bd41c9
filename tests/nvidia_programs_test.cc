// Tests CARMA with NVIDIA's own MPS control daemons and management library from several driver
// branches. These programs need no GPU to start, respond and exit. tools/nvidia_programs.py
// downloads them and runs this program; otherwise every test is skipped.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process_id.h"
#include "gpu/nvml_library.h"
#include "gpu/nvml_probe.h"
#include "task/mps/mps_control.h"
#include "task/process/process_tree.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using task::MpsControl;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr char kGpu[] = "GPU-8f3a91c2-0000-1111-2222-333344445555";

MpsControl::Deadline Soon(std::chrono::milliseconds span = kPatience) {
  return std::chrono::steady_clock::now() + span;
}

// Removes the driver's device file, which the CUDA library creates if root uses it on a machine
// without a driver.
class DeviceFile : public ::testing::Environment {
 public:
  void TearDown() override {
    if (!was_there_) ::unlink(kPath);
  }

 private:
  static constexpr char kPath[] = "/dev/nvidiactl";
  const bool was_there_ = base::Exists(kPath);
};
const auto* const kDeviceFile = ::testing::AddGlobalTestEnvironment(new DeviceFile);

// Whether this machine has a driver. Some tests expect that no MPS server starts, which is true
// only without a driver.
bool DriverHere() {
  return base::Exists("/proc/driver/nvidia/version");
}

class Branch : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string programs = base::GetEnv("CARMA_NVIDIA_PROGRAMS");
    if (programs.empty()) GTEST_SKIP() << "to be run by tools/nvidia_programs.py";
    folder_ = programs + "/" + GetParam();
    if (!base::Exists(folder_)) GTEST_SKIP() << "branch " << GetParam() << " is missing";
  }
  std::string ControlProgram() const { return folder_ + "/bin/nvidia-cuda-mps-control"; }
  std::string Library(const std::string& name) const { return folder_ + "/lib/" + name; }
  std::map<std::string, std::string> Libraries() const {
    return {{"LD_LIBRARY_PATH", folder_ + "/lib"}};
  }
  // Control programs before branch 550 do not report a server's state.
  bool TellsState() const { return std::string(GetParam()) >= "550"; }

  std::string folder_;
};

std::string BranchName(const ::testing::TestParamInfo<const char*>& branch) {
  return branch.param;
}

class NvidiaMps : public Branch {
 protected:
  NvidiaMps() {
    setup_.shim_path = Program("carma-shim");
    setup_.dir = place_ / "mps";
    id_ = {::getuid(), ::getgid(), kGpu};
  }
  void SetUp() override {
    Branch::SetUp();
    setup_.program = ControlProgram();
    setup_.environment = Libraries();
  }
  void TearDown() override {
    if (!folder_.empty()) Control().Quit(Soon());
    ExpectNothingLeft();
  }
  MpsControl Control() const { return {setup_, id_}; }
  std::string Pipes() const { return task::MpsPipeDir(setup_.dir, id_); }
  std::string Log(const std::string& name) const {
    return ReadText(task::MpsLogDir(setup_.dir, id_) + "/" + name);
  }
  std::vector<base::ProcessId> Processes() const {
    return task::ProcessesWithVariable(id_.uid, "CUDA_MPS_PIPE_DIRECTORY=" + Pipes());
  }
  void ExpectNothingLeft() const {
    EXPECT_FALSE(Control().Daemon());
    EXPECT_THAT(Processes(), IsEmpty());
    EXPECT_FALSE(base::Exists(Pipes()));
  }
  // Without a GPU, no MPS server starts, but the control daemon keeps running.
  void StartWithoutServer() {
    const auto server = Control().Ready(Soon());
    if (server && DriverHere()) return;
    ASSERT_FALSE(server);
    EXPECT_THAT(server.error().message, HasSubstr("the MPS server exited during startup"));
    ASSERT_TRUE(Control().Daemon());
  }
  // Sends a command directly to the control daemon.
  std::string Ask(const std::string& command) const {
    RunOptions options{.input = command + "\n", .environment = Libraries()};
    options.environment["CUDA_MPS_PIPE_DIRECTORY"] = Pipes();
    const Ran ran = RunProgram({ControlProgram()}, options);
    EXPECT_EQ(ran.code, 0) << "whatever it says: " << command;
    return ran.out;
  }

  Folder place_;
  task::MpsSetup setup_;
  task::MpsServerId id_;
};
INSTANTIATE_TEST_SUITE_P(OfBranch, NvidiaMps, ::testing::Values("535", "550"), BranchName);

TEST_P(NvidiaMps, TheControlDaemonIsStartedQueriedAndEnded) {
  const auto before = std::chrono::steady_clock::now();
  const auto server = Control().Ready(Soon(), true);
  EXPECT_FALSE(Control().DividesSms()) << "needs CUDA 13.1, which Debian does not have yet";
  if (!DriverHere()) {
    ASSERT_FALSE(server);
    EXPECT_THAT(server.error().message, HasSubstr("Failed to start : no CUDA-capable device"));
    EXPECT_LT(std::chrono::steady_clock::now() - before, kPatience / 2) << "said at once";
  }
  EXPECT_TRUE(Control().Daemon());
  EXPECT_THAT(Processes(), Not(IsEmpty()));
  EXPECT_THAT(task::FindMpsServers(setup_, {"GPU-other", kGpu}), ElementsAre(id_));
  EXPECT_TRUE(Control().Look(Soon()));
  EXPECT_THAT(Log("control.log"),
              AllOf(HasSubstr("Starting control daemon"), HasSubstr("Cmd:start_server")));
  EXPECT_THAT(Log("server.log"), HasSubstr("Startup"));
  Control().Quit(Soon());
  ExpectNothingLeft();
  EXPECT_THAT(Log("control.log"), HasSubstr("quit command")) << "the logs stay";
}

TEST_P(NvidiaMps, NoSuccessIsReadFromAnExitCode) {
  StartWithoutServer();
  const auto state = task::ParseMpsServerState(Ask("get_server_status 1"));
  if (TellsState()) {
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().code, base::ErrorCode::kNotFound);
  } else {
    EXPECT_EQ(state, task::MpsServerState::kUnknown);
  }
  const task::MpsServer gone{{1, 0}, task::MpsServerState::kActive};
  EXPECT_THAT(Ask("get_server_status 1\nget_client_list 1"),
              ::testing::EndsWith("\nServer 1 not found\n"))
      << "each command gets a reply";
  EXPECT_THAT(Control().TerminateClient(gone, 1, Soon()).error().message,
              HasSubstr("Server 1 not found"));
  EXPECT_THAT(Ask("make_coffee"), HasSubstr("Unknown command \"make_coffee\""));
}

TEST_P(NvidiaMps, ADaemonThatWasKilledIsReplaced) {
  StartWithoutServer();
  const auto daemon = Control().Daemon();
  ASSERT_TRUE(daemon);
  const Watched watched(daemon->pid);
  ::kill(daemon->pid, SIGKILL);
  ASSERT_TRUE(watched.Ends());
  EXPECT_FALSE(Control().Daemon()) << "although its files still exist";
  EXPECT_TRUE(base::Exists(Pipes() + "/control"));
  StartWithoutServer();
  EXPECT_NE(Control().Daemon(), daemon);
}

TEST_P(NvidiaMps, AHangingDaemonIsAbandonedAndKilledInTheEnd) {
  StartWithoutServer();
  const auto daemon = Control().Daemon();
  ASSERT_TRUE(daemon);
  ::kill(daemon->pid, SIGSTOP);
  EXPECT_EQ(Control().Daemon(), daemon) << "the kernel reports the holder of the lock";
  EXPECT_THAT(Control().Look(Soon(std::chrono::milliseconds(300))).error().message,
              HasSubstr("did not respond in time"));
  Control().Quit(Soon(std::chrono::milliseconds(300)));
  ExpectNothingLeft();
}

TEST_P(NvidiaMps, AServerWithoutCudasLibraryEndsSilently) {
  setup_.environment = {};
  StartWithoutServer();
}

TEST_P(NvidiaMps, TheDaemonRunsAsTheUser) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  id_.uid = id_.gid = OtherUser();
  if (!RunProgram({"/bin/ls", folder_}, {.uid = id_.uid}).Ok())
    GTEST_SKIP() << "the user may not enter " << folder_;
  StartWithoutServer();
  EXPECT_TRUE(Control().Daemon());
  EXPECT_THAT(Log("server.log"), HasSubstr("Startup"));
}

// With control programs of branch 535, carmad once left a process behind for each user and GPU.
TEST_P(NvidiaMps, NothingIsLeftByACarmadThatWasKilledAndStartedAgain) {
  Site site{{.shape = "1xA100-40GB"}};
  const std::string program = site.folder() / "control";
  WriteText(program,
            "#!/bin/sh\nexport LD_LIBRARY_PATH=" + folder_ + "/lib PATH=" + folder_ +
                "/bin:$PATH\nexec " + ControlProgram() + " \"$@\"\n",
            0755);
  site.Set("collocation.method", "\"mps\"");
  site.Set("collocation.mps_control", "\"" + program + "\"");
  site.Set("collocation.mps_dir", "\"" + setup_.dir + "\"");
  site.Start();
  const std::string doctor = site.Carma({"doctor", "--config", site.config_file()}).out;
  EXPECT_THAT(doctor, HasSubstr("a control daemon was started, queried and stopped"));
  const auto silent = HasSubstr("does not report the state of MPS servers");
  if (TellsState()) {
    EXPECT_THAT(doctor, Not(silent));
  } else {
    EXPECT_THAT(doctor, silent);
  }
  id_.gpus = site.Gpus()[0].uuid;
  const auto run = [&] {
    const api::TaskView task = site.Await(site.Submit({"--gpu-mem", "1G", "--", "/bin/true"}));
    EXPECT_EQ(task.state, "succeeded");
    EXPECT_EQ(task.sharing, "streams");
    return task.sharing_note;
  };
  const std::string note = run();
  if (!DriverHere()) {
    EXPECT_THAT(note, HasSubstr("no CUDA-capable device"));
  }
  const auto daemon = Control().Daemon();
  EXPECT_TRUE(daemon) << "it is kept for the next task";
  site.Restart(SIGKILL);
  EXPECT_EQ(Control().Daemon(), daemon);
  run();
  EXPECT_EQ(Control().Daemon(), daemon) << "the running daemon is found; no second one is started";
  site.Stop(SIGTERM);
  ExpectNothingLeft();
  EXPECT_THAT(Log("control.log"), HasSubstr("Starting control daemon"));
}

// Since branch 580, the control program first calls the driver. If that call fails, the program
// exits with CUDA's error.
class NvidiaMpsWithoutDriver : public NvidiaMps {};
INSTANTIATE_TEST_SUITE_P(OfBranch, NvidiaMpsWithoutDriver, ::testing::Values("580"), BranchName);

TEST_P(NvidiaMpsWithoutDriver, ExplainsAControlProgramThatDoesNotStart) {
  if (DriverHere()) GTEST_SKIP() << "there is a driver";
  const auto server = Control().Ready(Soon());
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message,
              HasSubstr("the MPS control program failed: it exited with code"));
}

// Control programs before branch 580 do not support servers for several users, so carmad refuses
// them without starting them.
class NvidiaMultiUser : public NvidiaMps {};
INSTANTIATE_TEST_SUITE_P(OfBranch, NvidiaMultiUser, ::testing::Values("535", "550", "580"),
                         BranchName);

TEST_P(NvidiaMultiUser, AServerForAllUsersIsRecognisedInTheHelp) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  if (DriverHere()) GTEST_SKIP() << "there is a driver";
  id_ = task::SharedMpsServer(kGpu);
  const auto server = Control().Ready(Soon());
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message,
              HasSubstr(std::string(GetParam()) < "580"
                            ? "needs driver branch 580 or newer"
                            : "the MPS control program failed: it exited with code"));
}

class NvidiaNvml : public Branch {};
INSTANTIATE_TEST_SUITE_P(OfBranch, NvidiaNvml, ::testing::Values("535", "550"), BranchName);

TEST_P(NvidiaNvml, HasAllFunctionsThatAreLookedUp) {
  auto library = gpu::LoadNvml(Library("libnvidia-ml.so.1"));
  ASSERT_TRUE(library) << library.error().message;
  const gpu::NvmlApi looked_up([&library](const std::string& name) {
    void* function = ::dlsym(library->handle.get(), name.c_str());
    const bool newer = name == "nvmlDeviceGetTemperatureV" ||  // NVML 13
                       name.ends_with("MemoryLimits_v1");      // branch 615
    EXPECT_TRUE(function != nullptr || newer) << name;
    return function;
  });
}

TEST_P(NvidiaNvml, ReportsThatThereIsNoDriver) {
  if (DriverHere()) GTEST_SKIP() << "there is a driver";
  auto probe = gpu::LoadNvmlProbe(Library("libnvidia-ml.so.1"));
  ASSERT_TRUE(probe) << probe.error().message;
  EXPECT_THAT((*probe)->Devices().error().Sentence(), HasSubstr("Driver Not Loaded (NVML 9)"));
  EXPECT_THAT(gpu::AskDriverVersions(Library("libnvidia-ml.so.1")).error().message,
              HasSubstr("Driver Not Loaded"));
}

TEST_P(NvidiaNvml, DaemonAndDoctorWorkWithoutADriver) {
  if (DriverHere()) GTEST_SKIP() << "there is a driver";
  Site site;
  site.Set("monitor.nvml_library", "\"" + Library("libnvidia-ml.so.1") + "\"");
  site.Start(false);
  const Ran doctor = site.Carma({"doctor", "--config", site.config_file()});
  EXPECT_THAT(doctor.out, HasSubstr("Driver Not Loaded")) << doctor.Text();
  EXPECT_EQ(site.Stop(SIGTERM).code, 0);
}

}  // namespace
}  // namespace carma::system_test
