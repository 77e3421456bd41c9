#include "cli/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "cli/doctor/context.h"

namespace carma::cli {
namespace {

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

DriverFacts OneGpu(gpu::ReadResult<gpu::Reading> reading) {
  DriverFacts facts{.versions = gpu::DriverVersions{"550.1", "12.550.1", "12.4"},
                    .gpus = {},
                    .dcgm_trouble = "dcgmi cannot be started",
                    .simulated = false};
  facts.gpus->push_back({{.uuid = "GPU-a", .name = "A100"}, std::move(reading)});
  return facts;
}

// The first finding that is not kOk, or an empty finding if there is none.
Finding FirstTrouble(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.level != Level::kOk) return finding;
  }
  return {};
}

TEST(DoctorGpus, AHealthyGpuHasNoProblems) {
  const std::vector<Finding> findings = CheckDriver(OneGpu(Healthy()), {});
  EXPECT_EQ(Worst(findings), Level::kOk) << FirstTrouble(findings).text;
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_THAT(findings[0].text, HasSubstr("driver 550.1, NVML 12.550.1, CUDA up to 12.4"));
  EXPECT_THAT(findings[1].text, HasSubstr("A100, 1000M of 39.6G in use, GPU-a"));
  EXPECT_THAT(findings[2].text, HasSubstr("(GPM); a task may join others while"));
  EXPECT_THAT(findings[3].text, HasSubstr("not reported: "));
}

TEST(DoctorGpus, TheLimitIsThatOfTheSharingMethod) {
  config::Settings settings;
  settings.policy.sm_cap = 0.95;
  settings.policy.streams_sm_cap = 0.4;
  const auto rule = [&](core::SharingMethod method) {
    config::Settings in_force = settings;
    in_force.policy = config::PolicyFor(settings, method);
    return CheckDriver(OneGpu(Healthy()), in_force)[2].text;
  };
  settings.chosen.insert("policy.sm_cap");
  EXPECT_THAT(rule(core::SharingMethod::kMps), HasSubstr("is at most 95 % (policy.sm_cap)"));
  EXPECT_THAT(rule(core::SharingMethod::kStreams),
              HasSubstr("is at most 40 % (collocation.streams_sm_cap)"));
  settings.policy.streams_sm_cap.reset();
  EXPECT_THAT(rule(core::SharingMethod::kStreams),
              HasSubstr("not needed (collocation.streams_sm_cap = false)"));
  settings.mapper = "exclusive";
  EXPECT_THAT(rule(core::SharingMethod::kAlone), HasSubstr("(GPM); one task at a time"));
}

TEST(DoctorGpus, WarnsIfAmountsOfMemoryDoNotAddUp) {
  DriverFacts facts = OneGpu(Healthy());
  facts.uneven_memory = {{.uuid = "GPU-b"},
                         {.uuid = "GPU-a",
                          .total_mib = 40'960,
                          .reserved_mib = 1'024,
                          .free_mib = 30'720,
                          .used_mib = 10'240}};
  const Finding trouble = FirstTrouble(CheckDriver(facts, {}));
  EXPECT_EQ(trouble.level, Level::kWarn);
  EXPECT_THAT(trouble.text,
              HasSubstr("40.0G in total, but 1.0G reserved, 30.0G free and 10.0G used"));
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
      {"no activity counters",
       [](gpu::Reading& r, config::Settings&) { r.counters = gpu::CounterSource::kNone; },
       Level::kWarn,
       "no source reports SM activity (dcgmi cannot be started); tasks may share this GPU "
       "while kernels run at most 80 % of the time"},
      {"no activity counters, and none required",
       [](gpu::Reading& r, config::Settings& s) {
         r.counters = gpu::CounterSource::kNone;
         s.policy.sm_cap.reset();
       },
       Level::kWarn, "based on memory alone"},
      {"no spare rows left",
       [](gpu::Reading& r, config::Settings&) { r.condition.remap_failed = true; }, Level::kBad,
       "no spare rows"},
      {"remap needed", [](gpu::Reading& r, config::Settings&) { r.condition.remap_pending = true; },
       Level::kWarn, "waiting to be remapped"},
      {"memory errors", [](gpu::Reading& r, config::Settings&) { r.condition.ecc_uncorrected = 2; },
       Level::kWarn, "2 uncorrectable memory errors"},
      {"reset requested",
       [](gpu::Reading& r, config::Settings&) { r.condition.recovery = RecoveryAction::kGpuReset; },
       Level::kBad, "asks for a GPU reset"},
      {"reboot requested",
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
      {"unknown recovery action",
       [](gpu::Reading& r, config::Settings&) { r.condition.recovery = RecoveryAction::kOther; },
       Level::kBad, "that this version does not know"},
      {"prohibited",
       [](gpu::Reading& r, config::Settings&) {
         r.condition.compute_mode = ComputeMode::kProhibited;
       },
       Level::kBad, "PROHIBITED"},
      {"exclusive mode under streams",
       [](gpu::Reading& r, config::Settings& s) {
         r.condition.compute_mode = ComputeMode::kExclusiveProcess;
         s.collocation = core::SharingMethod::kStreams;
       },
       Level::kBad, "EXCLUSIVE"},
      {"exclusive mode under MPS",
       [](gpu::Reading& r, config::Settings& s) {
         r.condition.compute_mode = ComputeMode::kExclusiveProcess;
         s.collocation = core::SharingMethod::kMps;
       },
       Level::kWarn, "only one user's MPS server"},
      {"a program's fault", [](gpu::Reading& r, config::Settings&) { r.xids = {31}; }, Level::kWarn,
       "Xid 31 during the check"},
      {"contained memory error", [](gpu::Reading& r, config::Settings&) { r.xids = {94}; },
       Level::kWarn, "Xid 94"},
      {"the GPU's fault", [](gpu::Reading& r, config::Settings&) { r.xids = {79}; }, Level::kBad,
       "Xid 79"},
      {"process of unknown size",
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
  exclusive.xids = {63};
  config::Settings alone;
  alone.collocation = core::SharingMethod::kAlone;
  EXPECT_EQ(Worst(CheckDriver(OneGpu(exclusive), alone)), Level::kOk)
      << "no sharing, and Xid 63 is reported elsewhere";
}

TEST(DoctorGpus, ReportsInstancesAndTheLackOfWholeGpus) {
  DriverFacts facts = OneGpu(Healthy());
  for (int i = 0; i < 2; ++i) {
    gpu::Reading reading = Healthy();
    reading.condition.mig = true;
    facts.gpus->push_back(
        {{.uuid = "MIG-" + std::to_string(i),
          .name = "A100 MIG 3g.20gb",
          .mig = gpu::MigPlace{.parent_uuid = "GPU-b", .profile = 9, .profile_name = "3g.20gb"}},
         reading});
  }
  config::Settings settings;
  const std::vector<Finding> mixed = CheckDriver(facts, settings);
  EXPECT_EQ(Worst(mixed), Level::kOk) << FirstTrouble(mixed).text;
  EXPECT_EQ(mixed.back().topic, "mig");
  EXPECT_EQ(
      mixed.back().text,
      "1 of 2 boards partitioned: 2 x 3g.20gb; one task each (collocation.share_mig = false)");
  settings.policy.share_mig = true;
  EXPECT_THAT(CheckDriver(facts, settings).back().text, HasSubstr("shared using streams"));
  EXPECT_THAT(CheckDriver(facts, settings),
              ::testing::Contains(::testing::Field(
                  &Finding::text, HasSubstr("is at most 40 % (collocation.streams_sm_cap)"))));
  (*facts.gpus)[2].reading->counters = gpu::CounterSource::kNone;
  const Finding uncounted = FirstTrouble(CheckDriver(facts, settings));
  EXPECT_EQ(uncounted.topic, "gpu 2");
  EXPECT_THAT(uncounted.remedy, HasSubstr("collocation.share_mig = false"));
  settings.policy.share_mig = false;
  EXPECT_EQ(Worst(CheckDriver(facts, settings)), Level::kOk) << "one task needs no counters";
  facts.pending_mig = {{.uuid = "GPU-a", .on = true}};
  const Finding pending = FirstTrouble(CheckDriver(facts, settings));
  EXPECT_EQ(pending.text, "MIG mode of GPU-a will be turned on at its next reset");
  EXPECT_NE(pending.remedy, "");
  facts.pending_mig.clear();
  facts.gpus->erase(facts.gpus->begin());
  const Finding divided = FirstTrouble(CheckDriver(facts, settings));
  EXPECT_EQ(divided.topic, "mig");
  EXPECT_THAT(divided.text, HasSubstr("every GPU is partitioned: multi-GPU tasks can never run"));
  EXPECT_NE(divided.remedy, "");
}

TEST(DoctorGpus, AnUndescribedGpuIsBad) {
  DriverFacts facts = OneGpu(NotFound("as its problem states"));
  (*facts.gpus)[0].info.trouble = {"not divided", gpu::TroubleCause::kNoInstance, "GPU-a"};
  const Finding none = FirstTrouble(CheckDriver(facts, {}));
  EXPECT_EQ(none.level, Level::kBad);
  EXPECT_EQ(none.text, "GPU GPU-a: not divided");
  EXPECT_THAT(none.remedy, HasSubstr("nvidia-smi -mig 0"));
  (*facts.gpus)[0].info.trouble = {"only the first is used", gpu::TroubleCause::kSharedMemory};
  EXPECT_EQ(FirstTrouble(CheckDriver(facts, {})).level, Level::kWarn);
  // The result must depend on the cause, not on the wording of `trouble`.
  (*facts.gpus)[0].info.trouble = {"MIG is on but there are no instances"};
  EXPECT_THAT(FirstTrouble(CheckDriver(facts, {})).remedy, HasSubstr("nvidia-smi -q"));
}

TEST(DoctorGpus, ADriverThatDoesNotAnswerIsBad) {
  const DriverFacts none{.versions = std::unexpected(gpu::NoDriver{.message = "no NVML library"}),
                         .gpus = {},
                         .dcgm_trouble = "",
                         .simulated = false};
  EXPECT_EQ(FirstTrouble(CheckDriver(none, {})).text, "no NVML library");
  EXPECT_THAT(FirstTrouble(CheckDriver(none, {})).remedy, HasSubstr("install the NVIDIA driver"));
  const DriverFacts hanging{.versions = std::unexpected(gpu::NoDriver{.message = "it hangs"}),
                            .gpus = {},
                            .dcgm_trouble = "",
                            .simulated = false,
                            .hangs = true};
  EXPECT_THAT(FirstTrouble(CheckDriver(hanging, {})).remedy, HasSubstr("Xid"));
  DriverFacts silent = OneGpu(Healthy());
  silent.gpus = Unavailable("initialising NVML: unknown error");
  EXPECT_EQ(FirstTrouble(CheckDriver(silent, {})).topic, "gpus");
  DriverFacts empty = OneGpu(Healthy());
  empty.gpus->clear();
  EXPECT_EQ(FirstTrouble(CheckDriver(empty, {})).text, "the driver lists no GPUs");
  const Finding lost = FirstTrouble(CheckDriver(OneGpu(NotFound("lost")), {}));
  EXPECT_EQ(lost.level, Level::kBad);
  EXPECT_THAT(lost.remedy, HasSubstr("nvidia-smi -r"));
}

TEST(Doctor, TheRemedyOfAMissingDriverFollowsItsAnswer) {
  config::Settings settings;
  DriverFacts facts = OneGpu(Healthy());
  const auto remedy = [&](std::optional<gpu::nvml::Return> code) {
    facts.versions = std::unexpected(gpu::NoDriver{.message = "no driver", .nvml_code = code});
    return FirstTrouble(CheckDriver(facts, settings)).remedy;
  };
  EXPECT_THAT(remedy(gpu::nvml::kLibRmVersionMismatch), HasSubstr("reboot"));
  EXPECT_THAT(remedy(gpu::nvml::kDriverNotLoaded), HasSubstr("modprobe nvidia"));
  EXPECT_THAT(remedy(gpu::nvml::kUnknown), HasSubstr("nvidia-smi"));
  EXPECT_THAT(remedy(std::nullopt), HasSubstr("nvidia-smi"));
  facts.simulated = true;
  settings.simgpu_state = "/server";
  EXPECT_THAT(remedy(gpu::nvml::kLibRmVersionMismatch),
              HasSubstr("carma-simgpu create --state /server"));
}

TEST(Doctor, MergesEqualFindingsOfSeveralGpus) {
  std::vector<Finding> findings;
  for (const std::size_t gpu : {0U, 1U, 2U, 4U}) {
    const std::string topic = "gpu " + std::to_string(gpu);
    findings.push_back({topic, Level::kOk, "A100 number " + std::to_string(gpu), "", gpu});
    findings.push_back({topic, Level::kWarn, "no counters", "install DCGM", gpu});
    if (gpu == 1) findings.push_back({topic, Level::kWarn, "remap pending", "reset it", gpu});
  }
  findings.push_back({"disk", Level::kOk, "free", ""});
  EXPECT_EQ(DoctorText(findings, {}),
            "ok    gpu 0      A100 number 0\n"
            "ok    gpu 1      A100 number 1\n"
            "warn  gpu 1      remap pending\n"
            "                 -> reset it\n"
            "ok    gpu 2      A100 number 2\n"
            "ok    gpu 4      A100 number 4\n"
            "warn  gpu 0-2,4  no counters\n"
            "                 -> install DCGM\n"
            "ok    disk       free\n"
            "2 warnings.\n");
}

TEST(Doctor, WrapsLongLinesBelowTheirText) {
  const std::vector<Finding> findings = {
      {"disk", Level::kWarn, "only a little is left of it", "make room there, or move it"}};
  EXPECT_EQ(DoctorText(findings, {.width = 31}),
            "warn  disk  only a little is\n"
            "            left of it\n"
            "            -> make room there,\n"
            "               or move it\n"
            "1 warning.\n");
}

TEST(Doctor, TextAndJsonHaveTheSameFindings) {
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
            "1 problem, 1 warning.\n");
  EXPECT_THAT(DoctorText({findings[0]}, {}), HasSubstr("No problems found."));
  (*facts.gpus)[0].info.mig = gpu::MigPlace{.parent_uuid = "GPU-b", .profile_name = "1g.5gb"};
  ContextFacts known{.gpu_type = "A100", .gpu = 0, .cost = gpu::ContextCost{.mib = 412}};
  known.assumed.mib = 1'455;
  ContextFacts refused{.gpu_type = "H100", .gpu = 1};
  refused.cost = std::unexpected(gpu::ContextTrouble{.text = "cuInit: no"});
  const auto json = base::ParseJson(DoctorJson(findings, facts, {known, refused}));
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["worst"], "bad");
  EXPECT_EQ((*json)["findings"][1]["remedy"], "turn it on");
  EXPECT_EQ((*json)["gpus"][0]["activity"], "gpm");
  EXPECT_EQ((*json)["gpus"][0]["counters"], base::Json::array({"sm_active"}));
  EXPECT_THAT((*json)["gpus"][0]["values"].dump(), HasSubstr("compute mode"));
  EXPECT_EQ((*json)["gpus"][0]["mig_profile"], "1g.5gb");
  EXPECT_EQ((*json)["contexts"][0]["measured_mib"], 412);
  EXPECT_EQ((*json)["contexts"][0]["assumed_mib"], 1'455);
  EXPECT_EQ((*json)["contexts"][1]["not_measured"], "cuInit: no");
}

}  // namespace
}  // namespace carma::cli
