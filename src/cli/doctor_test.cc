#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>

#include "base/file.h"
#include "base/json.h"

namespace carma::cli {
namespace {

using base::ErrorCode;
using base::Fail;
using ::testing::HasSubstr;

gpu::Reading Healthy() {
  gpu::Reading reading;
  reading.total_mib = 40'960;
  reading.reserved_mib = 424;
  reading.used_mib = 1'000;
  reading.counters = gpu::CounterSource::kGpm;
  reading.sm_active = 0.5;
  reading.condition = {.ecc_corrected = 3,
                       .ecc_uncorrected = 0,
                       .rows_remapped = 0,
                       .remap_pending = false,
                       .remap_failed = false,
                       .compute_mode = gpu::ComputeMode::kDefault,
                       .mig = false,
                       .recovery = gpu::RecoveryAction::kNone};
  return reading;
}

DriverFacts OneGpu(base::Result<gpu::Reading> reading) {
  DriverFacts facts{.versions = gpu::DriverVersions{"550.1", "12.550.1", "12.4"},
                    .gpus = {},
                    .dcgm_trouble = "dcgmi cannot be started",
                    .simulated = false};
  facts.gpus->push_back({{.uuid = "GPU-a", .name = "A100"}, std::move(reading)});
  return facts;
}

// The first finding that is not well; kOk if all are.
Finding FirstTrouble(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.level != Level::kOk) return finding;
  }
  return {};
}

TEST(DoctorGpus, AHealthyGpuIsAllWell) {
  const std::vector<Finding> findings = CheckDriver(OneGpu(Healthy()), {});
  EXPECT_EQ(Worst(findings), Level::kOk) << FirstTrouble(findings).text;
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_THAT(findings[0].text, HasSubstr("driver 550.1, NVML 12.550.1, CUDA up to 12.4"));
  EXPECT_THAT(findings[1].text, HasSubstr("A100, 1000M of 39.6G in use, GPU-a"));
  EXPECT_THAT(findings[2].text, HasSubstr("(GPM); a task joins others while"));
}

TEST(DoctorGpus, EachTroubleHasItsLevelAndARemedy) {
  using gpu::ComputeMode;
  using gpu::RecoveryAction;
  struct Case {
    const char* name;
    std::function<void(gpu::Reading&, config::Settings&)> change;
    Level level;
    const char* text;
  };
  const Case cases[] = {
      {"nobody counts",
       [](gpu::Reading& r, config::Settings&) { r.counters = gpu::CounterSource::kNone; },
       Level::kWarn, "nobody counts SM activity (dcgmi cannot be started); NVML's coarse"},
      {"nobody counts, and nobody asks",
       [](gpu::Reading& r, config::Settings& s) {
         r.counters = gpu::CounterSource::kNone;
         s.policy.sm_cap.reset();
       },
       Level::kWarn, "by memory alone"},
      {"spares used up",
       [](gpu::Reading& r, config::Settings&) { r.condition.remap_failed = true; }, Level::kBad,
       "spares"},
      {"rows wait", [](gpu::Reading& r, config::Settings&) { r.condition.remap_pending = true; },
       Level::kWarn, "wait to be remapped"},
      {"memory errors", [](gpu::Reading& r, config::Settings&) { r.condition.ecc_uncorrected = 2; },
       Level::kWarn, "2 memory errors"},
      {"reset wanted",
       [](gpu::Reading& r, config::Settings&) { r.condition.recovery = RecoveryAction::kGpuReset; },
       Level::kBad, "asks for a reset"},
      {"reboot wanted",
       [](gpu::Reading& r, config::Settings&) {
         r.condition.recovery = RecoveryAction::kNodeReboot;
       },
       Level::kBad, "reboot"},
      {"less capacity",
       [](gpu::Reading& r, config::Settings&) {
         r.condition.recovery = RecoveryAction::kDrainAndReset;
       },
       Level::kWarn, "reduced capacity"},
      {"traffic between GPUs",
       [](gpu::Reading& r, config::Settings&) { r.condition.recovery = RecoveryAction::kDrainP2p; },
       Level::kBad, "traffic"},
      {"something new",
       [](gpu::Reading& r, config::Settings&) { r.condition.recovery = RecoveryAction::kOther; },
       Level::kBad, "does not know"},
      {"prohibited",
       [](gpu::Reading& r, config::Settings&) {
         r.condition.compute_mode = ComputeMode::kProhibited;
       },
       Level::kBad, "PROHIBITED"},
      {"exclusive mode under streams",
       [](gpu::Reading& r, config::Settings&) {
         r.condition.compute_mode = ComputeMode::kExclusiveProcess;
       },
       Level::kBad, "EXCLUSIVE"},
      {"MIG", [](gpu::Reading& r, config::Settings&) { r.condition.mig = true; }, Level::kWarn,
       "MIG instances"},
      {"memory of processes",
       [](gpu::Reading& r, config::Settings&) {
         r.processes = {{.pid = 1, .used_mib = 5}, {.pid = 2}};
       },
       Level::kWarn, "1 of 2 processes"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    gpu::Reading reading = Healthy();
    config::Settings settings;
    c.change(reading, settings);
    const std::vector<Finding> findings = CheckDriver(OneGpu(reading), settings);
    const Finding trouble = FirstTrouble(findings);
    EXPECT_EQ(trouble.level, c.level);
    EXPECT_EQ(trouble.topic, "gpu 0");
    EXPECT_THAT(trouble.text, HasSubstr(c.text));
    EXPECT_NE(trouble.remedy, "");
  }
  gpu::Reading exclusive = Healthy();
  exclusive.condition.compute_mode = ComputeMode::kExclusiveProcess;
  config::Settings mps;
  mps.collocation = config::CollocationMethod::kMps;
  EXPECT_EQ(Worst(CheckDriver(OneGpu(exclusive), mps)), Level::kOk) << "as MPS wants it";
}

TEST(DoctorGpus, ADriverThatDoesNotAnswerIsBad) {
  const DriverFacts none{.versions = Fail(ErrorCode::kUnavailable, "no NVML library"),
                         .gpus = {},
                         .dcgm_trouble = "",
                         .simulated = false};
  EXPECT_EQ(FirstTrouble(CheckDriver(none, {})).text, "no NVML library");
  EXPECT_THAT(FirstTrouble(CheckDriver(none, {})).remedy, HasSubstr("install the NVIDIA driver"));
  const DriverFacts hanging{.versions = Fail(ErrorCode::kUnavailable, "it hangs"),
                            .gpus = {},
                            .dcgm_trouble = "",
                            .simulated = false,
                            .hangs = true};
  EXPECT_THAT(FirstTrouble(CheckDriver(hanging, {})).remedy, HasSubstr("Xid"));
  DriverFacts silent = OneGpu(Healthy());
  silent.gpus = Fail(ErrorCode::kUnavailable, "initialising NVML: unknown error");
  EXPECT_EQ(FirstTrouble(CheckDriver(silent, {})).topic, "gpus");
  DriverFacts empty = OneGpu(Healthy());
  empty.gpus->clear();
  EXPECT_EQ(FirstTrouble(CheckDriver(empty, {})).text, "the driver knows no GPU");
  const Finding lost = FirstTrouble(CheckDriver(OneGpu(Fail(ErrorCode::kNotFound, "lost")), {}));
  EXPECT_EQ(lost.level, Level::kBad);
  EXPECT_THAT(lost.remedy, HasSubstr("nvidia-smi -r"));
}

// A machine's files below a folder.
class DoctorMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/carma-doctor-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(base::MakeDirs(root_ + path.substr(0, path.rfind('/'))));
    ASSERT_TRUE(base::WriteFileAtomic(root_ + path, text));
  }
  void Link(const std::string& path, const std::string& target) {
    ASSERT_TRUE(base::MakeDirs(root_ + path.substr(0, path.rfind('/'))));
    std::filesystem::create_symlink(target, root_ + path);
  }
  std::string root_;
};

TEST_F(DoctorMachine, AnEmptyOneHasNothingToComplainAbout) {
  EXPECT_EQ(Worst(CheckRights(root_, true, false)), Level::kOk);
  EXPECT_EQ(Worst(CheckRights(root_, false, false)), Level::kOk);
  EXPECT_EQ(CheckMps(root_, {}).level, Level::kOk);
}

TEST_F(DoctorMachine, HiddenProcessesOfOthers) {
  Put("/proc/mounts", "proc /proc proc rw,nosuid,hidepid=invisible 0 0\n");
  EXPECT_THAT(FirstTrouble(CheckRights(root_, false, false)).text, HasSubstr("hidepid=invisible"));
  EXPECT_EQ(Worst(CheckRights(root_, true, false)), Level::kOk) << "root sees them";
  Put("/proc/mounts", "proc /proc proc rw,hidepid=0 0 0\ntmpfs /x tmpfs rw,hidepid=2 0 0\nshort\n");
  EXPECT_EQ(Worst(CheckRights(root_, false, false)), Level::kOk);
}

TEST_F(DoctorMachine, APidNamespaceOfItsOwn) {
  Link("/proc/self/ns/pid", "pid:[4026532211]");
  EXPECT_THAT(FirstTrouble(CheckRights(root_, true, false)).text, HasSubstr("pid namespace"));
  EXPECT_EQ(Worst(CheckRights(root_, true, true)), Level::kOk) << "a simulated driver shares it";
}

TEST_F(DoctorMachine, CountersForAdministratorsOnly) {
  Put("/proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n");
  EXPECT_THAT(FirstTrouble(CheckRights(root_, false, false)).text, HasSubstr("administrators"));
  EXPECT_EQ(Worst(CheckRights(root_, true, false)), Level::kOk);
}

TEST_F(DoctorMachine, MpsAsItIsConfigured) {
  config::Settings streams;
  streams.mps_dir = "/mps";
  config::Settings mps = streams;
  mps.collocation = config::CollocationMethod::kMps;
  EXPECT_THAT(CheckMps(root_, mps).text, HasSubstr("there is no /mps"));
  Put("/mps/nvidia-cuda-mps-control.pid", "4242\n");
  EXPECT_THAT(CheckMps(root_, mps).text, HasSubstr("no MPS control daemon"));
  EXPECT_EQ(CheckMps(root_, streams).level, Level::kOk);
  Put("/proc/4242/stat", "");
  EXPECT_THAT(CheckMps(root_, mps).text, HasSubstr("/mps/control is not ours"));
  Put("/mps/control", "");
  EXPECT_EQ(CheckMps(root_, mps).level, Level::kOk);
  EXPECT_EQ(CheckMps(root_, streams).level, Level::kWarn) << "tasks would join it unknown to CARMA";
  Put("/mps/nvidia-cuda-mps-control.pid", "-1");
  EXPECT_EQ(CheckMps(root_, mps).level, Level::kBad);
}

TEST(Doctor, CgroupsDiskClockAndDaemon) {
  config::Settings settings;
  EXPECT_EQ(CheckCgroups({.root = "/r", .path = "/r/p", .reason = ""}, settings).level, Level::kOk);
  EXPECT_EQ(CheckCgroups({.root = "", .path = "", .reason = "read-only"}, settings).level,
            Level::kWarn);
  settings.cgroups = false;
  EXPECT_EQ(CheckCgroups({}, settings).level, Level::kOk);

  const auto disk = [](std::uint64_t mib, std::uint64_t files) {
    return CheckDisk(DiskFacts{.path = "/s", .free_bytes = mib << 20, .free_files = files}).level;
  };
  EXPECT_EQ(disk(2'000, 5'000), Level::kOk);
  EXPECT_EQ(disk(500, 5'000), Level::kWarn);
  EXPECT_EQ(disk(50, 5'000), Level::kBad);
  EXPECT_EQ(disk(2'000, 10), Level::kBad);
  EXPECT_EQ(CheckDisk(Fail(ErrorCode::kDenied, "x")).level, Level::kBad);

  constexpr std::int64_t kNow = 1'790'000'000'000;
  EXPECT_EQ(CheckClock({.now_ms = kNow, .daemon_ms = kNow - 4'000}).level, Level::kOk);
  EXPECT_EQ(CheckClock({.now_ms = kNow, .daemon_ms = kNow - 60'000}).level, Level::kWarn);
  EXPECT_EQ(CheckClock({.now_ms = kNow, .synchronised = false}).level, Level::kWarn);
  EXPECT_EQ(CheckClock({.now_ms = 1'000}).level, Level::kBad);

  EXPECT_EQ(CheckDaemon(Fail(ErrorCode::kUnavailable, "not running"), "/s")[0].level, Level::kWarn);
  api::StatusView status;
  EXPECT_EQ(Worst(CheckDaemon(status, "/s")), Level::kOk);
  status.troubles = {"store: disk full"};
  EXPECT_EQ(FirstTrouble(CheckDaemon(status, "/s")).text, "store: disk full");
}

TEST(Doctor, TextAndJsonSayTheSame) {
  DriverFacts facts = OneGpu(Healthy());
  const std::vector<Finding> findings = {{"driver", Level::kOk, "driver 1", ""},
                                         {"mps", Level::kWarn, "off", "turn it on"},
                                         {"gpu 0", Level::kBad, "lost", "reset"}};
  EXPECT_EQ(DoctorText(findings, {}),
            "ok    driver  driver 1\n"
            "warn  mps     off\n"
            "              -> turn it on\n"
            "bad   gpu 0   lost\n"
            "              -> reset\n"
            "1 bad, 1 to be looked at.\n");
  EXPECT_THAT(DoctorText({findings[0]}, {}), HasSubstr("All is well."));
  const auto json = base::ParseJson(DoctorJson(findings, facts));
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["worst"], "bad");
  EXPECT_EQ((*json)["findings"][1]["remedy"], "turn it on");
  EXPECT_EQ((*json)["gpus"][0]["activity"], "gpm");
  EXPECT_EQ((*json)["gpus"][0]["counters"], base::Json::array({"sm_active"}));
  EXPECT_THAT((*json)["gpus"][0]["values"].dump(), HasSubstr("compute mode"));
}

}  // namespace
}  // namespace carma::cli
