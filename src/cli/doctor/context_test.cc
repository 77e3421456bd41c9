#include "cli/doctor/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carma::cli {
namespace {

using ::testing::HasSubstr;
using Kind = gpu::ContextTrouble::Kind;

GpuFacts Gpu(const std::string& name, bool busy) {
  gpu::Reading reading;
  if (busy) reading.processes = {{.pid = 1, .used_mib = 900}};
  return {{.uuid = "GPU-x", .name = name}, reading};
}

TEST(DoctorContext, ChoosesOneIdleGpuOfEachType) {
  const std::vector<ContextCandidate> candidates = ContextCandidates(
      {Gpu("A100", true), Gpu("H100", true), Gpu("A100", false), Gpu("A100", false)});
  ASSERT_EQ(candidates.size(), 2u);
  EXPECT_EQ(candidates[0].gpu, 2u);
  EXPECT_EQ(candidates[0].obstacle, "");
  EXPECT_EQ(candidates[1].gpu, 1u);
  EXPECT_EQ(candidates[1].obstacle, "it is in use");
  EXPECT_TRUE(ContextCandidates({}).empty());
}

TEST(DoctorContext, NothingIsMeasuredWhileAGpuDoesNotAnswer) {
  GpuFacts hung{{.uuid = "GPU-unknown-1"},
                std::unexpected(gpu::ReadError(ErrorCode::kNotFound, "as above"))};
  hung.info.trouble = {"it has not answered for 5 s", gpu::TroubleCause::kHangs};
  const std::vector<ContextCandidate> candidates =
      ContextCandidates({Gpu("A100", false), hung, Gpu("H100", true)});
  ASSERT_EQ(candidates.size(), 2u) << "the type of the hung GPU is unknown";
  EXPECT_EQ(candidates[0].gpu, 0u);
  EXPECT_EQ(candidates[0].obstacle, "gpu 1 does not respond, and CUDA may hang waiting for it");
  EXPECT_EQ(candidates[1].obstacle, "it is in use");
  GpuFacts lost = Gpu("A100", false);
  lost.reading = std::unexpected(gpu::ReadError(ErrorCode::kNotFound, "lost"));
  EXPECT_THAT(ContextCandidates({lost, Gpu("L4", false)})[1].obstacle, HasSubstr("gpu 0"));
  hung.info.trouble.cause = gpu::TroubleCause::kNoInstance;
  EXPECT_EQ(ContextCandidates({Gpu("A100", false), hung})[0].obstacle, "")
      << "an undivided MIG board does not affect other GPUs";
}

ContextFacts Measured(std::int64_t mib, AssumedContext assumed) {
  return {.gpu_type = "A100",
          .gpu = 0,
          .cost = gpu::ContextCost{.mib = mib, .of_process = true},
          .not_measured = "",
          .assumed = std::move(assumed)};
}

TEST(DoctorContext, IsComparedWithTheEstimators) {
  const AssumedContext shipped{.mib = 1'455, .taught_by = "", .tasks = 0};
  const AssumedContext learned{.mib = 700, .taught_by = "A100", .tasks = 12};
  AssumedContext why = shipped;
  why.reason =
      "as shipped: 2 of the finished models are small enough to reveal the constant, but 5 are "
      "needed";
  const struct {
    const char* name;
    std::int64_t mib;
    AssumedContext assumed;
    Level level;
    const char* text;
  } cases[] = {
      {"shipped value includes the libraries", 412, shipped, Level::kOk,
       "1455 MiB, including PyTorch and cuBLAS (as shipped)"},
      {"shipped value too low", 1'700, shipped, Level::kWarn, "245 MiB less than the bare context"},
      {"learned value includes the libraries", 412, learned, Level::kOk,
       "(learned from 12 tasks on A100)"},
      {"the server gives the reason", 412, why, Level::kOk,
       "(as shipped: 2 of the finished models are small enough to reveal the constant, but 5 are "
       "needed)"},
      {"learned value covers everything", 700, learned, Level::kOk, "A100: 700 MiB (measured)"},
      {"learned under another driver", 900, learned, Level::kWarn, "predictions are too low"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Finding finding = CheckContext(Measured(c.mib, c.assumed));
    EXPECT_EQ(finding.level, c.level);
    EXPECT_EQ(finding.topic, "context");
    EXPECT_THAT(finding.text, HasSubstr(c.text));
    EXPECT_EQ(finding.remedy.empty(), c.level == Level::kOk);
  }
  AssumedContext deaf = shipped;
  deaf.learns = false;
  EXPECT_THAT(CheckContext(Measured(1'700, deaf)).remedy, HasSubstr("estimate.history = true"));
}

TEST(DoctorContext, ProblemsOfTasksAreBad) {
  const struct {
    gpu::ContextTrouble trouble;
    Level level;
    const char* remedy;
  } cases[] = {
      {{.kind = Kind::kNoLibrary, .text = "x"}, Level::kWarn, "CUDA library"},
      {{.kind = Kind::kRefused, .text = "x", .cuda_code = 802}, Level::kBad, "fabric manager"},
      {{.kind = Kind::kRefused, .text = "x", .cuda_code = 803}, Level::kBad, "versions"},
      {{.kind = Kind::kRefused, .text = "x", .cuda_code = 12'345}, Level::kBad, "dmesg"},
      {{.kind = Kind::kHung, .text = "x"}, Level::kBad, "Xid"},
      {{.kind = Kind::kDied, .text = "x"}, Level::kBad, "Xid"},
      {{.kind = Kind::kUnclear, .text = "x"}, Level::kWarn, "try again"},
      {{.kind = Kind::kMachine, .text = "x"}, Level::kWarn, "--no-measure"},
  };
  for (const auto& c : cases) {
    const Finding finding = CheckContext({.gpu_type = "H100",
                                          .gpu = 3,
                                          .cost = std::unexpected(c.trouble),
                                          .not_measured = "",
                                          .assumed = {}});
    EXPECT_EQ(finding.level, c.level);
    EXPECT_EQ(finding.text, "H100: cannot measure a context on gpu 3: x");
    EXPECT_THAT(finding.remedy, HasSubstr(c.remedy));
  }
}

TEST(DoctorContext, ReportsWhyAContextWasNotTried) {
  const Finding finding = CheckContext({.gpu_type = "H100",
                                        .gpu = 0,
                                        .cost = {},
                                        .not_measured = "it is in use",
                                        .assumed = {.mib = 1'455}});
  EXPECT_EQ(finding.level, Level::kOk);
  EXPECT_THAT(finding.text, HasSubstr("H100: not measured, it is in use; estimates"));
}

}  // namespace
}  // namespace carma::cli
