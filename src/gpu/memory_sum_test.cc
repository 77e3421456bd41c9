#include "gpu/memory_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/fake_nvml/fake_nvml_test.h"

namespace carma::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MemorySum : public ScriptedNvml {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ScriptedNvml::SetUp());
    nvml_->gpus.resize(2);
    for (std::size_t i = 0; i < 2; ++i) {
      nvml_->gpus[i].uuid = "GPU-" + std::to_string(i);
      nvml_->gpus[i].memory = Memory(40'960, 424, 30'000, 10'536);
    }
  }
  static nvml::MemoryV2 Memory(std::uint64_t total_mib, std::uint64_t reserved_mib,
                               std::uint64_t free_mib, std::uint64_t used_mib) {
    return {0, total_mib * kMib, reserved_mib * kMib, free_mib * kMib, used_mib * kMib};
  }
};

TEST_F(MemorySum, ReportsGpusWhoseAmountsDoNotAddUp) {
  EXPECT_THAT(AskUnevenMemory(CARMA_FAKE_NVML), IsEmpty());
  nvml_->gpus[0].memory.total += kMib;
  EXPECT_THAT(AskUnevenMemory(CARMA_FAKE_NVML), IsEmpty()) << "rounded";
  nvml_->gpus[1].memory = Memory(40'960, 424, 30'000, 10'960);  // `used` includes reserved memory
  EXPECT_THAT(AskUnevenMemory(CARMA_FAKE_NVML),
              ElementsAre(UnevenMemory{"GPU-1", 40'960, 424, 30'000, 10'960}));
  EXPECT_EQ(nvml_->users, 0) << "NVML was shut down again";
}

TEST_F(MemorySum, ReportsNothingWithoutDriver) {
  nvml_->gpus[0].memory.used = nvml::kNoValue64;
  nvml_->gpus[1].memory = Memory(40'960, 424, 30'000, 0);
  nvml_->gpus[1].errors = {{"nvmlDeviceGetMemoryInfo_v2", nvml::kNotSupported}};
  EXPECT_THAT(AskUnevenMemory(CARMA_FAKE_NVML), IsEmpty());
  EXPECT_THAT(AskUnevenMemory("/nonexistent.so"), IsEmpty());
}

}  // namespace
}  // namespace carma::gpu
