#include "gpu/memory_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/fake_nvml/fake_nvml_test.h"

namespace carma::gpu {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGroup = "/sys/fs/cgroup/carma-7";

class MemoryLimits : public ScriptedNvml {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ScriptedNvml::SetUp());
    nvml_->gpus = {UsualFakeGpu()};
    auto library = LoadNvml(CARMA_FAKE_NVML);
    ASSERT_TRUE(library) << library.error().message;
    library_ = std::move(*library);
  }
  Result<Unit> Set(const MemoryLimit& limit) {
    return gpu::SetMemoryLimits(library_.api, kGroup, std::span(&limit, 1));
  }

  std::optional<GroupMemory> Read() {
    const NvmlSession session(library_.api);
    nvml::Device device = nullptr;
    EXPECT_EQ(library_.api.by_uuid("GPU-a", &device), nvml::kSuccess);
    return ReadGroupMemory(library_.api, device, kGroup);
  }

  NvmlLibrary library_{nullptr, NvmlApi([](const char*) -> void* { return nullptr; })};
};

TEST_F(MemoryLimits, AreSetInBytesForTheGroupAndReadBack) {
  ASSERT_TRUE(Set({"GPU-a", 4000, 5000}));
  const auto& kept = nvml_->gpus[0].memory_limits.at(kGroup);
  EXPECT_EQ(kept.soft, 4000 * kMib);
  EXPECT_EQ(kept.hard, 5000 * kMib);
  nvml_->gpus[0].memory_limits[kGroup].used = 512 * kMib + 1;
  EXPECT_EQ(Read(), (GroupMemory{4000, 5000, 513}));
}

TEST_F(MemoryLimits, AreRemovedByTheLargestNumber) {
  ASSERT_TRUE(Set({"GPU-a", 4000, 5000}));
  ASSERT_TRUE(Set({"GPU-a", 0, std::nullopt}));
  EXPECT_EQ(nvml_->gpus[0].memory_limits.at(kGroup).hard, nvml::kNoMemoryLimit);
  EXPECT_EQ(Read(), (GroupMemory{0, std::nullopt, 0}));
}

TEST_F(MemoryLimits, AreUnavailableWithAnOlderDriver) {
  library_.api.set_memory_limits = nullptr;
  library_.api.memory_limits = nullptr;
  const auto set = Set({"GPU-a", 1, 2});
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(set.error().message, HasSubstr("615"));
  EXPECT_EQ(Read(), std::nullopt);
}

TEST_F(MemoryLimits, ReportWhyTheDriverRefuses) {
  const struct {
    nvml::Return answer;
    ErrorCode code;
  } kCases[] = {{nvml::kNoPermission, ErrorCode::kDenied},
                {nvml::kNotFound, ErrorCode::kNotFound},
                {nvml::kNotSupported, ErrorCode::kUnavailable}};
  for (const auto& each : kCases) {
    nvml_->gpus[0].errors["nvmlDeviceSetMemoryLimits_v1"] = each.answer;
    const auto set = Set({"GPU-a", 1, 2});
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, each.code);
    EXPECT_THAT(set.error().message, HasSubstr(kGroup));
  }
  EXPECT_EQ(Set({"GPU-z", 1, 2}).error().code, ErrorCode::kNotFound);
}

TEST_F(MemoryLimits, AreParsedFromWords) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(SetMemoryLimitsFromWords(Words{CARMA_FAKE_NVML, kGroup, "GPU-a", "100", "200"}), 0);
  EXPECT_EQ(nvml_->gpus[0].memory_limits.at(kGroup).hard, 200 * kMib);
  EXPECT_EQ(SetMemoryLimitsFromWords(Words{CARMA_FAKE_NVML, kGroup, "GPU-a", "0", "0"}), 0);
  EXPECT_EQ(nvml_->gpus[0].memory_limits.at(kGroup).hard, nvml::kNoMemoryLimit);
  EXPECT_EQ(SetMemoryLimitsFromWords(Words{CARMA_FAKE_NVML, kGroup, "GPU-z", "0", "0"}), 1);
  EXPECT_EQ(SetMemoryLimitsFromWords(Words{"no-such-library.so", kGroup}), 1);
  for (const Words& wrong : {Words{CARMA_FAKE_NVML}, Words{CARMA_FAKE_NVML, kGroup, "GPU-a"},
                             Words{CARMA_FAKE_NVML, kGroup, "GPU-a", "-1", "2"}}) {
    EXPECT_EQ(SetMemoryLimitsFromWords(wrong), 2);
  }
}

}  // namespace
}  // namespace carma::gpu
