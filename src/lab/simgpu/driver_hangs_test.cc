// Tests with real carma-reader processes in which one GPU of the simulated driver hangs, or the
// driver's library crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "base/file.h"
#include "gpu/reader/guarded_probe.h"
#include "gpu/steady_probe.h"
#include "lab/simgpu/server_fixture.h"
#include "lab/simgpu/state.h"
#include "test_paths.h"

namespace carma::simgpu {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr milliseconds kPatience{400};

class DriverHangs : public ::testing::Test {
 protected:
  explicit DriverHangs(const std::string& shape = "4xA100-40GB")
      : server_(shape, {.time_scale = 1000}) {}
  void SetUp() override {
    ::setenv(kStateVariable, server_.path().c_str(), 1);
    auto server = Server::Attach(server_.path());
    ASSERT_TRUE(server) << server.error().message;
    shared_ = std::move(*server);
  }
  void TearDown() override {
    ASSERT_TRUE(shared_->ClearFaults());
    ::unsetenv(kStateVariable);
  }

  gpu::GuardOptions Options() {
    return {.reader = {base::ExecutableDir() + "/carma-reader", CARMA_SIMGPU_DRIVER},
            .patience = kPatience,
            .first_pause = milliseconds(1),
            .longest_pause = milliseconds(20)};
  }
  void Hang(std::int32_t gpu, const std::string& function = "") {
    ASSERT_TRUE(shared_->SetFault({FaultKind::kHang, gpu, 0, function}));
  }
  std::vector<std::string> Uuids(gpu::GuardedProbe& probe) {
    std::vector<std::string> uuids;
    const auto devices = probe.Devices();
    EXPECT_TRUE(devices) << devices.error().message;
    for (const gpu::DeviceInfo& device : devices.value_or(std::vector<gpu::DeviceInfo>{}))
      uuids.push_back(device.uuid);
    return uuids;
  }
  std::string Trouble(gpu::Probe& probe, std::size_t device) {
    const auto reading = probe.Read(device, base::FromMs(++now_ms_));
    return reading ? "" : reading.error().message;
  }
  // Waits until `so` returns true. `so` must read the GPU or list the GPUs, because only then does
  // the probe retry a hung GPU.
  bool Soon(const std::function<bool()>& so) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!so()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::yield();
    }
    return true;
  }
  // The children of this process that are named carma-reader.
  static std::vector<pid_t> Readers() {
    std::vector<pid_t> pids;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      const auto text = base::ReadFile(thread.path().string() + "/children", 65'536);
      std::istringstream words(text.value_or(""));
      for (pid_t pid = 0; words >> pid;) {
        const auto name = base::ReadFile("/proc/" + std::to_string(pid) + "/comm", 100);
        if (name.value_or("") == "carma-reader\n") pids.push_back(pid);
      }
    }
    return pids;
  }

  TestServer server_;
  std::unique_ptr<Server> shared_;
  std::int64_t now_ms_ = 0;
};

TEST_F(DriverHangs, ReadsTheOtherGpusAndRetriesTheHungOne) {
  gpu::GuardedProbe probe(Options());
  const std::vector<std::string> uuids = Uuids(probe);
  ASSERT_EQ(uuids.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(Trouble(probe, i), "");
  Hang(2);
  EXPECT_THAT(Trouble(probe, 2), HasSubstr("not answered"));
  const auto before = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round) {
    for (const std::size_t other : {0U, 1U, 3U}) EXPECT_EQ(Trouble(probe, other), "");
    EXPECT_THAT(Trouble(probe, 2), HasSubstr("not answered"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20 * kPatience) << "no call waits for it";
  EXPECT_EQ(Uuids(probe), uuids) << "the hung GPU keeps its UUID in a new list";
  ASSERT_TRUE(shared_->ClearFaults());
  EXPECT_TRUE(Soon([&] { return Trouble(probe, 2).empty(); }));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(Trouble(probe, i), "");
}

TEST_F(DriverHangs, LosingOneGpuKeepsTheOthersOpen) {
  gpu::GuardedProbe probe(Options());
  ASSERT_EQ(Uuids(probe).size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(Trouble(probe, i), "");
  ASSERT_TRUE(shared_->SetFault({FaultKind::kLost, 2, 0, ""}));
  EXPECT_NE(Trouble(probe, 2), "");
  Hang(3);
  EXPECT_THAT(Trouble(probe, 3), HasSubstr("not answered"));
  for (const std::size_t other : {0U, 1U}) EXPECT_EQ(Trouble(probe, other), "");
}

TEST_F(DriverHangs, AProbeStartsWithoutTheHungGpu) {
  Hang(1);
  gpu::GuardedProbe probe(Options());
  const auto devices = probe.Devices();
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 4U);
  EXPECT_EQ((*devices)[1].trouble.cause, gpu::TroubleCause::kHangs);
  EXPECT_THAT((*devices)[1].trouble.text, HasSubstr("not answered"));
  for (const std::size_t other : {0U, 2U, 3U}) {
    EXPECT_EQ((*devices)[other].trouble.text, "");
    EXPECT_EQ(Trouble(probe, other), "");
  }
  ASSERT_TRUE(shared_->ClearFaults());
  EXPECT_TRUE(Soon([&] { return Trouble(probe, 1).empty(); }));
  EXPECT_EQ(probe.Devices().value()[1].trouble.text, "");
}

TEST_F(DriverHangs, NewListsFindAGpuThatAnswersAgainWithoutBeingRead) {
  Hang(1);
  gpu::GuardedProbe probe(Options());
  ASSERT_TRUE(probe.Devices());
  ASSERT_TRUE(shared_->ClearFaults());
  EXPECT_TRUE(Soon([&] { return probe.Devices().value().at(1).trouble.empty(); }));
}

TEST_F(DriverHangs, EachRetryFindsAHangInOneFunction) {
  gpu::GuardedProbe probe(Options());
  ASSERT_EQ(Uuids(probe).size(), 4U);
  // Before the probe reads a hung GPU again, a trial process lists the devices. Listing does not
  // call nvmlDeviceGetPowerUsage, so each trial succeeds and the next reading hangs again.
  Hang(0, "nvmlDeviceGetPowerUsage");
  EXPECT_THAT(Trouble(probe, 0), HasSubstr("not answered"));
  for (int round = 0; round < 5; ++round) {
    EXPECT_THAT(Trouble(probe, 0), HasSubstr("not answered"));
    EXPECT_EQ(Trouble(probe, 3), "");
  }
  ASSERT_TRUE(shared_->ClearFaults());
  EXPECT_TRUE(Soon([&] { return Trouble(probe, 0).empty(); }));
}

// Keeps killed processes from going away, as if they hung in the kernel: a traced process is not
// reaped until its tracer has ended.
class Tracers {
 public:
  ~Tracers() { End(); }
  // Returns false if a process could not be traced.
  bool Trace(const std::vector<pid_t>& pids) {
    bool all = true;
    for (const pid_t pid : pids) all = (tracers_.contains(pid) || Add(pid)) && all;
    return all;
  }
  std::size_t size() const { return tracers_.size(); }
  void End() {
    for (const auto& [pid, tracer] : std::exchange(tracers_, {})) {
      ::kill(tracer, SIGKILL);
      ::waitpid(tracer, nullptr, 0);
    }
  }

 private:
  bool Add(pid_t pid) {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    const pid_t tracer = ::fork();
    if (tracer == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char traces = ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0 ? 1 : 0;
      if (::write(ends[1], &traces, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    tracers_[pid] = tracer;
    ::close(ends[1]);
    char traces = 0;
    const bool told = ::read(ends[0], &traces, 1) == 1;
    ::close(ends[0]);
    return told && traces == 1;
  }

  std::map<pid_t, pid_t> tracers_;  // by traced process
};

TEST_F(DriverHangs, StartsFewReadersForAGpuWhileTheyCannotBeKilled) {
  gpu::GuardedProbe probe(Options());
  ASSERT_EQ(Uuids(probe).size(), 4U);
  Tracers tracers;
  if (!tracers.Trace(Readers())) GTEST_SKIP() << "needs permission to trace processes";
  Hang(2);
  const auto look = [&] {
    EXPECT_THAT(Trouble(probe, 2), HasSubstr("not answered"));
    EXPECT_TRUE(tracers.Trace(Readers()));
    return tracers.size();
  };
  EXPECT_TRUE(Soon([&] { return look() == 4; }));
  const auto until = std::chrono::steady_clock::now() + 3 * kPatience;
  while (std::chrono::steady_clock::now() < until) look();
  EXPECT_EQ(tracers.size(), 4U);
  EXPECT_EQ(Trouble(probe, 0), "") << "the other GPUs are still read";
  ASSERT_TRUE(shared_->ClearFaults());
  EXPECT_THAT(Trouble(probe, 2), HasSubstr("not answered"));
  tracers.End();
  EXPECT_TRUE(Soon([&] { return Trouble(probe, 2).empty(); }));
}

TEST_F(DriverHangs, ReportsAHangOfTheWholeDriverOnce) {
  gpu::GuardedProbe probe(Options());
  ASSERT_EQ(Uuids(probe).size(), 4U);
  Hang(kWholeDriver);
  EXPECT_THAT(Trouble(probe, 0), HasSubstr("not answered"));
  EXPECT_THAT(Trouble(probe, 1), HasSubstr("not answered"));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_THAT(Trouble(probe, 2), HasSubstr("not answered"));
  EXPECT_THAT(Trouble(probe, 3), HasSubstr("not answered"));
  EXPECT_LT(std::chrono::steady_clock::now() - before, kPatience);
  EXPECT_FALSE(probe.Devices());
  ASSERT_TRUE(shared_->ClearFaults());
  EXPECT_EQ(Uuids(probe).size(), 4U);
  EXPECT_EQ(Trouble(probe, 0), "");
}

TEST_F(DriverHangs, ReportsADriverWhoseGpusAllHang) {
  gpu::GuardedProbe probe(Options());
  for (int gpu = 0; gpu < 4; ++gpu) Hang(gpu);
  const auto devices = probe.Devices();
  ASSERT_FALSE(devices);
  EXPECT_THAT(devices.error().message, HasSubstr("not answered"));
  ASSERT_TRUE(shared_->ClearFaults());
  EXPECT_EQ(Uuids(probe).size(), 4U) << "the next list tries the GPUs again";
}

TEST_F(DriverHangs, ReplacesAKilledReader) {
  gpu::GuardedProbe probe(Options());
  ASSERT_EQ(Uuids(probe).size(), 4U);
  ASSERT_EQ(Readers().size(), 1U);
  ASSERT_EQ(::kill(Readers()[0], SIGKILL), 0);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(Trouble(probe, i), "") << "no GPU is affected";
  EXPECT_EQ(Readers().size(), 1U);
}

TEST_F(DriverHangs, DoesNotCallAGpuThatIsLeftAlone) {
  gpu::GuardedProbe probe(Options());
  const std::vector<std::string> uuids = Uuids(probe);
  probe.LeaveAlone({2});
  Hang(2);
  for (const std::size_t other : {0U, 1U, 3U}) EXPECT_EQ(Trouble(probe, other), "");
  EXPECT_EQ(Uuids(probe), uuids);
  EXPECT_EQ(probe.Devices().value()[2].trouble.text, "") << "a GPU left alone reports no trouble";
  ASSERT_TRUE(shared_->ClearFaults());
  probe.LeaveAlone({});
  EXPECT_EQ(Trouble(probe, 2), "");
}

TEST_F(DriverHangs, AProbeLeavesNoProcessBehind) {
  {
    gpu::GuardedProbe probe(Options());
    ASSERT_EQ(Uuids(probe).size(), 4U);
    Hang(3);
    EXPECT_NE(Trouble(probe, 3), "");
    EXPECT_NE(Trouble(probe, 3), "");
  }
  EXPECT_THAT(Readers(), ElementsAre());
}

class MigGpuHangs : public DriverHangs {
 protected:
  MigGpuHangs() : DriverHangs("A100-40GB,A100-40GB:mig=3g.20gb+1g.5gb,2xA100-40GB") {}
};

TEST_F(MigGpuHangs, ItsInstancesKeepTheirNumbersAndComeBack) {
  const auto known = gpu::GuardedProbe(Options()).Devices();
  ASSERT_TRUE(known) << known.error().message;
  ASSERT_EQ(known->size(), 5U);
  Hang(1);
  Hang(3);
  gpu::SteadyProbe probe(std::make_unique<gpu::GuardedProbe>(Options()));
  ASSERT_EQ(probe.Devices().value().size(), 4U) << "the instances of the hung GPU are unknown";
  probe.Keep(*known);
  for (const std::size_t device : {0U, 3U}) EXPECT_EQ(Trouble(probe, device), "");
  for (const std::size_t device : {1U, 2U, 4U})
    EXPECT_THAT(Trouble(probe, device), HasSubstr("not answered"));
  ASSERT_TRUE(shared_->ClearFaults());
  for (const std::size_t device : {1U, 2U, 4U})
    EXPECT_TRUE(Soon([&] { return Trouble(probe, device).empty(); })) << device;
  EXPECT_EQ(probe.Devices().value(), *known);
  for (std::size_t device = 0; device < 5; ++device) EXPECT_EQ(Trouble(probe, device), "");
}

TEST_F(DriverHangs, NamesAMissingLibrary) {
  gpu::GuardOptions options = Options();
  options.reader.nvml_library = "/no/such/libnvidia-ml.so.1";
  gpu::GuardedProbe probe(std::move(options));
  EXPECT_THAT(probe.Devices().error().message, HasSubstr("/no/such/libnvidia-ml.so.1"));
}

}  // namespace
}  // namespace carma::simgpu
