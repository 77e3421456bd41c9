#include "gpu/mig_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/fake_nvml/fake_nvml_test.h"

namespace carma::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MigMode : public ScriptedNvml {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ScriptedNvml::SetUp());
    nvml_->gpus.resize(3);
    for (std::size_t i = 0; i < 3; ++i) nvml_->gpus[i].uuid = "GPU-" + std::to_string(i);
  }
};

TEST_F(MigMode, ReportsOnlyChangesThatNeedAReset) {
  EXPECT_THAT(AskPendingMigModes(CARMA_FAKE_NVML), IsEmpty());
  nvml_->gpus[0].mig_mode = 1;
  nvml_->gpus[0].mig_pending = 0;
  nvml_->gpus[1].mig_mode = 1;
  nvml_->gpus[2].mig_pending = 1;
  EXPECT_THAT(AskPendingMigModes(CARMA_FAKE_NVML),
              ElementsAre(PendingMigMode{.uuid = "GPU-0", .on = false},
                          PendingMigMode{.uuid = "GPU-2", .on = true}));
  EXPECT_EQ(nvml_->users, 0) << "NVML was shut down again";
  nvml_->gpus[2].mig_pending = nvml::kNoValue32;
  EXPECT_EQ(AskPendingMigModes(CARMA_FAKE_NVML).size(), 1u) << "an invalid mode is left out";
}

TEST_F(MigMode, ReportsNothingWithoutDriver) {
  nvml_->gpus[0].mig_pending = 1;
  for (const char* function : {"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetMigMode"}) {
    nvml_->errors = {{function, nvml::kUnknown}};
    EXPECT_THAT(AskPendingMigModes(CARMA_FAKE_NVML), IsEmpty()) << function;
  }
  EXPECT_THAT(AskPendingMigModes("/nonexistent.so"), IsEmpty());
}

TEST(ComputeShareOf, FollowsFromTheSlicesInTheName) {
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = "3g.20gb"}), 3.0 / 7);
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = "1g.5gb"}), 1.0 / 7);
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = "1c.3g.20gb"}), 1.0 / 7);
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = "7g.80gb"}), 1);
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = "1g.6gb", .slices = 4}), 1.0 / 4);
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = "4g.24gb", .slices = 4}), 1);
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = ""}), 1);
  EXPECT_DOUBLE_EQ(ComputeShareOf({.profile_name = "9g.80gb"}), 1);
}

}  // namespace
}  // namespace carma::gpu
