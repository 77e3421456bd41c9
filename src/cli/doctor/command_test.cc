// Tests `carma doctor` by running the whole command on a scripted driver and on recordings.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "api/overview.h"
#include "api/status_view.h"
#include "api/views.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/fake_daemon.h"
#include "gpu/fake_nvml/fake_nvml.h"
#include "gpu/recording.h"
#include "test_paths.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRecorded = CARMA_SOURCE_DIR "/fuzz/corpus/recording/simulated-2xA100.jsonl";

class DoctorCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/carma-doctor-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    handle_ = ::dlopen(CARMA_FAKE_NVML, RTLD_NOW);
    ASSERT_NE(handle_, nullptr) << ::dlerror();
    nvml_ = static_cast<gpu::FakeNvml*>(::dlsym(handle_, gpu::kFakeNvmlSymbol));
    ASSERT_NE(nvml_, nullptr);
    *nvml_ = {};
    nvml_->gpus = {gpu::UsualFakeGpu()};
    ::setenv(gpu::kFakeNvmlVariable, "gpu", 1);  // for carma-reader
    Configure(CARMA_FAKE_NVML);
  }
  void TearDown() override {
    ::unsetenv(gpu::kFakeNvmlVariable);
    *nvml_ = {};
    ::dlclose(handle_);
    std::filesystem::remove_all(folder_);
  }
  void Configure(const std::string& library) {
    ASSERT_TRUE(base::WriteFileAtomic(
        folder_ + "/c.toml", "[daemon]\nsocket = \"" + folder_ + "/no.sock\"\nstate_dir = \"" +
                                 folder_ + "\"\n[monitor]\nnvml_library = \"" + library + "\"\n"));
  }
  Ran Doctor(std::vector<std::string> words) {
    words.insert(words.begin(), {"doctor", "--config", folder_ + "/c.toml"});
    return RunWords(folder_ + "/no.sock", std::move(words));
  }

  std::string folder_;
  void* handle_ = nullptr;
  gpu::FakeNvml* nvml_ = nullptr;
};

TEST_F(DoctorCommand, ChecksTheMachine) {
  const Ran ran = Doctor({});
  EXPECT_THAT(ran.out, HasSubstr("driver 550.54.15, NVML 12.550.54.15, CUDA up to 12.4"));
  EXPECT_THAT(ran.out, HasSubstr("Fake GPU, 0M of 40.0G in use, GPU-a"));
  EXPECT_THAT(ran.out, HasSubstr("(GPM)"));
  EXPECT_THAT(ran.out, HasSubstr("disk"));
  EXPECT_THAT(ran.out, HasSubstr("carmad is not running"));
  EXPECT_EQ(ran.err, "");
  const auto json = base::ParseJson(Doctor({"--json"}).out);
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["gpus"][0]["activity"], "gpm");
}

TEST_F(DoctorCommand, MeasuresAContextInAChild) {
  ::setenv("LD_LIBRARY_PATH", CARMA_FAKE_CUDA_DIR "/whole", 1);
  const Ran ran = Doctor({});
  EXPECT_THAT(ran.out, HasSubstr("the process that holds the context"))
      << "the child's context is unknown to the scripted driver";
  ::setenv("CARMA_FAKE_CUDA", "fail=cuInit:802", 1);
  const Ran refused = Doctor({});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.out, HasSubstr("on gpu 0: cuInit: system not yet initialized (CUDA 802)"));
  EXPECT_THAT(refused.out, HasSubstr("nvidia-fabricmanager"));
  const Ran skipped = Doctor({"--no-measure", "--json"});
  const auto json = base::ParseJson(skipped.out);
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["contexts"][0]["not_measured"], "--no-measure");
  EXPECT_EQ((*json)["contexts"][0]["assumed_mib"], 808);
  ::unsetenv("CARMA_FAKE_CUDA");
  ::unsetenv("LD_LIBRARY_PATH");
}

TEST_F(DoctorCommand, FailsIfAFindingIsBad) {
  ::setenv(gpu::kFakeNvmlVariable, "gpu remap-failed", 1);
  const Ran broken = Doctor({});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.out, HasSubstr("no spare rows are left"));
  nvml_->errors = {{"nvmlInit_v2", gpu::nvml::kDriverNotLoaded}};
  const Ran gone = Doctor({});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.out, HasSubstr("initialising NVML"));
  Configure("/nonexistent/libnvidia-ml.so.1");
  const Ran none = Doctor({});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.out, HasSubstr("no NVML library"));
  EXPECT_THAT(none.out, HasSubstr("install the NVIDIA driver"));
  EXPECT_THAT(none.out, HasSubstr("cgroups")) << "everything else is still checked";
}

TEST_F(DoctorCommand, LooksAtTheSimulatedGpusOfTheDaemon) {
  Configure("/nonexistent/libnvidia-ml.so.1");
  ASSERT_TRUE(base::WriteFileAtomic(folder_ + "/gpus", "no simulated server"));
  FakeDaemon daemon;
  daemon.On("GET /v1/status", [&](const api::Request&) {
    const api::StatusView status{.driver = "ok", .state_dir = folder_};
    return api::Response{.body = base::DumpJson(ToJson(status))};
  });
  bool simulated = true;
  daemon.On("GET /v1/overview", [&](const api::Request&) {
    return api::Response{.body = base::DumpJson(ToJson(api::OverviewView{.simulated = simulated}))};
  });
  const Ran ran = Doctor({"--socket", daemon.socket_path()});
  EXPECT_THAT(ran.out, HasSubstr("simulated"));
  EXPECT_THAT(ran.out, Not(HasSubstr("install the NVIDIA driver")));
  ::unsetenv("CARMA_SIMGPU_STATE");
  simulated = false;
  EXPECT_THAT(Doctor({"--socket", daemon.socket_path()}).out,
              HasSubstr("install the NVIDIA driver"));
}

TEST_F(DoctorCommand, ReportsTheDiskOfTheRunningDaemon) {
  const std::string other = folder_ + "/other";
  std::filesystem::create_directory(other);
  FakeDaemon daemon;
  daemon.On("GET /v1/status", [&](const api::Request&) {
    const api::StatusView status{.driver = "ok", .state_dir = other};
    return api::Response{.body = base::DumpJson(ToJson(status))};
  });
  EXPECT_THAT(Doctor({"--socket", daemon.socket_path()}).out, HasSubstr("free at " + other));
}

TEST_F(DoctorCommand, ReadsTheConfigurationFileOfTheRunningDaemon) {
  FakeDaemon daemon;
  daemon.On("GET /v1/status", [&](const api::Request&) {
    const api::StatusView status{
        .driver = "ok", .state_dir = folder_, .config_file = folder_ + "/c.toml"};
    return api::Response{.body = base::DumpJson(ToJson(status))};
  });
  EXPECT_THAT(RunWords(daemon.socket_path(), {"doctor"}).out, HasSubstr("Fake GPU, 0M of 40.0G"));
}

TEST_F(DoctorCommand, RecordsAndReplays) {
  const std::string file = folder_ + "/r.jsonl";
  const Ran recorded = Doctor({"--record", file, "--seconds", "1"});
  EXPECT_EQ(recorded.exit_code, 0) << recorded.err;
  EXPECT_THAT(recorded.out, HasSubstr("Recorded 1 driver responses"));
  const auto recording = gpu::ParseRecording(*base::ReadFile(file, 1 << 20));
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->driver, "550.54.15");
  ASSERT_EQ(recording->answers.size(), 1u);
  EXPECT_EQ(recording->answers[0].at.count(), 0);
  EXPECT_EQ(recording->answers[0].reading->sm_active, 0.25);

  const Ran replayed = Doctor({"--replay", kRecorded});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_THAT(replayed.out, HasSubstr("NVIDIA A100-SXM4-40GB, 8.8G of 39.6G in use"));
  EXPECT_THAT(replayed.out, Not(HasSubstr("disk"))) << "that was another machine";
}

TEST_F(DoctorCommand, ReportsMistakesInOneLine) {
  const struct {
    std::vector<std::string> words;
    int exit_code;
    const char* says;
  } cases[] = {
      {{"--replay", folder_ + "/nothing"}, 2, "nothing"},
      {{"--replay", folder_ + "/c.toml"}, 2, "line 1"},
      {{"--record", folder_ + "/no/folder", "--seconds", "1"}, 1, "no/folder"},
      {{"--record", "f", "--seconds", "0"}, 2, "--seconds"},
      {{"--seconds", "5"}, 2, "--record"},
      {{"--record", "f", "--replay", "g"}, 2, "--re"},
  };
  for (const auto& c : cases) {
    const Ran ran = Doctor(c.words);
    EXPECT_EQ(ran.exit_code, c.exit_code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(c.says));
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1);
  }
}

}  // namespace
}  // namespace carma::cli
