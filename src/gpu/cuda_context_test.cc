#include "gpu/cuda_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "test_paths.h"

namespace carma::gpu {
namespace {

using ::testing::HasSubstr;
using Kind = ContextTrouble::Kind;

// PIDs of this thread's child processes. A test creates at most one at a time.
std::vector<pid_t> Children() {
  std::ifstream list("/proc/thread-self/children");
  std::vector<pid_t> children;
  for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  return children;
}

// A fake driver with one GPU whose processes are this test's children.
class ChildrenProbe : public Probe {
 public:
  ReadResult<std::vector<DeviceInfo>> Devices() override { return std::vector<DeviceInfo>{}; }
  ReadResult<Reading> Read(std::size_t, base::Time now) override {
    Reading reading = idle;
    reading.taken = now;
    for (const pid_t pid : Children()) {
      ++seen;
      reading.used_mib += 412;
      if (lists) reading.processes.push_back({.pid = pid, .used_mib = told_mib});
      if (stranger) reading.processes.push_back({.pid = 1});
    }
    return reading;
  }

  Reading idle;
  bool lists = true;                           // whether the driver lists the child
  std::optional<std::int64_t> told_mib = 410;  // the child's memory
  bool stranger = false;                       // another process appears with the child
  int seen = 0;
};

class CudaContext : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/carma-cuda-test-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Set("LD_LIBRARY_PATH", CARMA_FAKE_CUDA_DIR "/whole");
    Set("CARMA_FAKE_CUDA_LOG", folder_ + "/log");
    Set("CARMA_FAKE_CUDA", "");
    probe_.idle.total_mib = 40'000;
    probe_.idle.used_mib = 3;
  }
  void TearDown() override {
    EXPECT_THAT(Children(), ::testing::IsEmpty());
    for (const std::string& name : set_) ::unsetenv(name.c_str());
    std::filesystem::remove_all(folder_);
  }
  void Set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    set_.emplace_back(name);
  }
  std::expected<ContextCost, ContextTrouble> Measure(
      std::chrono::milliseconds patience = std::chrono::milliseconds(60'000)) {
    return MeasureContext(probe_, 0, info_,
                          {.holder = {CARMA_CONTEXT_HOLDER},
                           .patience = patience,
                           .settling = std::chrono::milliseconds(0)});
  }
  std::string Log() { return base::ReadFile(folder_ + "/log", 1 << 20).value_or(""); }

  std::string folder_;
  std::vector<std::string> set_;
  DeviceInfo info_{.uuid = "GPU-a", .name = "A100", .pci = "00000000:07:00.0"};
  ChildrenProbe probe_;
};

TEST_F(CudaContext, UsesTheMemoryReportedForTheProcess) {
  const auto cost = Measure();
  ASSERT_TRUE(cost) << cost.error().text;
  EXPECT_EQ(*cost, (ContextCost{.mib = 410, .of_process = true}));
  EXPECT_THAT(Log(), HasSubstr("released")) << "nothing is left on the GPU";
}

TEST_F(CudaContext, UsesTheGpusGrowthIfNoProcessIsListed) {
  probe_.lists = false;
  EXPECT_EQ(Measure().value(), (ContextCost{.mib = 412, .of_process = false}));
  probe_.lists = true;
  probe_.told_mib.reset();
  EXPECT_EQ(Measure().value(), (ContextCost{.mib = 412, .of_process = false}));
}

TEST_F(CudaContext, IsUnclearIfAnotherProcessStarted) {
  probe_.lists = false;
  probe_.stranger = true;
  const auto cost = Measure();
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().kind, Kind::kUnclear);
  EXPECT_THAT(cost.error().text, HasSubstr("another process"));
}

TEST_F(CudaContext, UsesOneGpuAndNoMpsServer) {
  Set("CUDA_VISIBLE_DEVICES", "3");
  Set("CUDA_MPS_PIPE_DIRECTORY", "/somebodys/mps");
  Set("CUDA_MODULE_LOADING", "EAGER");
  info_.uuid = "MIG-b";
  ASSERT_TRUE(Measure());
  EXPECT_THAT(Log(), HasSubstr("CUDA_VISIBLE_DEVICES=MIG-b\n"));
  EXPECT_THAT(Log(), HasSubstr("CUDA_MPS_PIPE_DIRECTORY=/tmp/carma-context-"));
  EXPECT_THAT(Log(), HasSubstr("CUDA_MODULE_LOADING=(unset)\n"));
  const std::string log = Log();
  const std::size_t at = log.find("/tmp/carma-context-");
  EXPECT_FALSE(base::Exists(log.substr(at, log.find('\n', at) - at))) << "the folder is gone";
}

TEST_F(CudaContext, ReportsEveryFailureInOneSentence) {
  const struct {
    const char* name;
    const char* order;
    Kind kind;
    int code;
    const char* text;
  } cases[] = {
      {"a named error", "fail=cuInit:802", Kind::kRefused, 802,
       "cuInit: system not yet initialized (CUDA 802)"},
      {"an error without a name", "fail=cuDevicePrimaryCtxRetain:999", Kind::kRefused, 999,
       "cuDevicePrimaryCtxRetain: unnamed error (CUDA 999)"},
      {"no device", "fail=cuDeviceGetCount:100", Kind::kRefused, 100, "(CUDA 100)"},
      {"a bad device", "fail=cuDeviceGet:101", Kind::kRefused, 101, "(CUDA 101)"},
      {"a crash", "crash=cuInit", Kind::kDied, 0, "signal 6"},
      {"a crash of the driver", "crash=cuDevicePrimaryCtxRetain", Kind::kDied, 0, "signal 6"},
      {"a hang", "hang=cuDevicePrimaryCtxRetain", Kind::kHung, 0,
       "did not create a context within 0.2 s"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Set("CARMA_FAKE_CUDA", c.order);
    const auto cost = Measure(std::chrono::milliseconds(c.kind == Kind::kHung ? 200 : 60'000));
    ASSERT_FALSE(cost);
    EXPECT_EQ(cost.error().kind, c.kind);
    EXPECT_EQ(cost.error().cuda_code, c.code);
    EXPECT_THAT(cost.error().text, HasSubstr(c.text));
  }
}

// A process that the driver holds in the kernel survives SIGKILL. This test simulates one by not
// waiting for the child's end.
TEST_F(CudaContext, TestsAgainOnceTheProcessOfAnEarlierTestHasEnded) {
  Set("CARMA_FAKE_CUDA", "hang=cuDevicePrimaryCtxRetain");
  ContextOptions options{.holder = {CARMA_CONTEXT_HOLDER},
                         .patience = std::chrono::milliseconds(200),
                         .kill_time = std::chrono::milliseconds(0)};
  const auto trouble = TryContext("GPU-a", options);
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->kind, Kind::kHung);
  Set("CARMA_FAKE_CUDA", "");
  options.patience = std::chrono::milliseconds(60'000);
  while (TryContext("GPU-a", options)) EXPECT_LE(Children().size(), 1u);
  EXPECT_THAT(Children(), ::testing::IsEmpty()) << "it was reaped";
}

TEST_F(CudaContext, IgnoresErrorsAfterTheMeasurement) {
  Set("CARMA_FAKE_CUDA", "crash=cuDevicePrimaryCtxRelease_v2");
  EXPECT_TRUE(Measure());
  Set("CARMA_FAKE_CUDA", "fail=cuDeviceGetPCIBusId:1");
  EXPECT_TRUE(Measure()) << "the address is only used for a check";
}

TEST_F(CudaContext, ReportsMissingLibrariesAndFunctions) {
  Set("LD_LIBRARY_PATH", CARMA_FAKE_CUDA_DIR "/without_contexts");
  const auto lacking = Measure();
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().kind, Kind::kRefused);
  EXPECT_THAT(lacking.error().text, HasSubstr("cuDevicePrimaryCtxRetain: the library has no"));
  ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/libcuda.so.1", "no library"));
  Set("LD_LIBRARY_PATH", folder_);
  const auto broken = Measure();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, Kind::kNoLibrary);
  EXPECT_THAT(broken.error().text, HasSubstr("libcuda.so.1"));
}

TEST_F(CudaContext, RejectsAContextOnAnotherGpu) {
  info_.pci = "00000000:0A:00.0";
  EXPECT_THAT(Measure().error().text, HasSubstr("CUDA used the GPU at 0000:07:00.0"));
  info_.pci = "0:07:00.0";
  EXPECT_TRUE(Measure()) << "the same address with fewer digits";
  Set("CARMA_FAKE_CUDA_COUNT", "8");
  EXPECT_THAT(Measure().error().text, HasSubstr("8 GPUs are visible instead of one"));
}

TEST_F(CudaContext, FailsForUnsuitablePrograms) {
  const struct {
    std::vector<std::string> holder;
    Kind kind;
    const char* text;
  } cases[] = {
      {{"/nonexistent/carma"}, Kind::kMachine, "/nonexistent/carma: No such file"},
      {{"/bin/false"}, Kind::kDied, "exited with code 1 and no output"},
      {{"/bin/echo", "hello"}, Kind::kDied, "it said hello"},
      {{"/bin/echo", "refused"}, Kind::kDied, "it said refused"},
      {{"/bin/echo", "refused "}, Kind::kRefused, "(CUDA 0)"},
      {{"/bin/echo", "-n", "made"}, Kind::kDied, "no output"},
      {{"/usr/bin/yes", std::string(400, 'x')}, Kind::kDied, "it said"},
  };
  for (const auto& c : cases) {
    const auto cost = MeasureContext(probe_, 0, info_, {.holder = c.holder});
    ASSERT_FALSE(cost);
    EXPECT_EQ(cost.error().kind, c.kind) << cost.error().text;
    EXPECT_THAT(cost.error().text, HasSubstr(c.text));
  }
}

TEST_F(CudaContext, IsNotCreatedIfItWouldDisturbOthers) {
  const struct {
    const char* name;
    std::function<void(DeviceInfo&, Reading&)> change;
    const char* why;
  } cases[] = {
      {"idle", [](DeviceInfo&, Reading&) {}, ""},
      {"in use", [](DeviceInfo&, Reading& r) { r.processes = {{.pid = 1}}; }, "in use"},
      {"unlisted use", [](DeviceInfo&, Reading& r) { r.used_mib = 9'000; },
       "8.8G of memory is in use, but not by any"},
      {"unreadable", [](DeviceInfo& i, Reading&) { i.trouble = {"MIG without instances"}; },
       "MIG without"},
      {"exclusive",
       [](DeviceInfo&, Reading& r) { r.condition.compute_mode = ComputeMode::kExclusiveProcess; },
       "EXCLUSIVE"},
      {"prohibited",
       [](DeviceInfo&, Reading& r) { r.condition.compute_mode = ComputeMode::kProhibited; },
       "PROHIBITED"},
      {"ill", [](DeviceInfo&, Reading& r) { r.condition.recovery = RecoveryAction::kGpuReset; },
       "recovery"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    DeviceInfo info = info_;
    probe_.idle = {.total_mib = 40'000, .used_mib = 3};
    c.change(info, probe_.idle);
    EXPECT_THAT(ContextObstacle(info, probe_.idle), HasSubstr(c.why));
    if (*c.why == '\0') continue;
    probe_.seen = 0;
    EXPECT_FALSE(MeasureContext(probe_, 0, info, {.holder = {CARMA_CONTEXT_HOLDER}}));
    EXPECT_EQ(probe_.seen, 0);
    EXPECT_EQ(Log(), "") << "no attempt to create a context";
  }
  EXPECT_THAT(ContextObstacle(info_, NotFound("lost")), HasSubstr("lost"));
}

}  // namespace
}  // namespace carma::gpu
