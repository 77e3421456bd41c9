// Test fixtures with a scripted NVML: one with only the library, one with a probe that reads two of
// its GPUs.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>

#include "gpu/fake_nvml/fake_nvml.h"
#include "gpu/nvml_probe.h"
#include "test_paths.h"

namespace carma::gpu {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

class ScriptedNvml : public ::testing::Test {
 protected:
  void SetUp() override {
    // dlopen() gives the tested code this same instance of the library, with its script.
    handle_ = ::dlopen(CARMA_FAKE_NVML, RTLD_NOW);
    ASSERT_NE(handle_, nullptr) << ::dlerror();
    nvml_ = static_cast<FakeNvml*>(::dlsym(handle_, kFakeNvmlSymbol));
    ASSERT_NE(nvml_, nullptr);
    *nvml_ = {};
  }
  void TearDown() override {
    *nvml_ = {};
    ::dlclose(handle_);
  }

  void* handle_ = nullptr;
  FakeNvml* nvml_ = nullptr;
};

class FakeNvmlTest : public ScriptedNvml {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ScriptedNvml::SetUp());
    nvml_->gpus = {Gpu("GPU-b", "00000000:47:00.0"), Gpu("GPU-a", "00000000:07:00.0")};
    auto probe = LoadNvmlProbe(CARMA_FAKE_NVML);
    ASSERT_TRUE(probe) << probe.error().message;
    probe_ = std::move(*probe);
  }
  void TearDown() override {
    probe_.reset();
    EXPECT_EQ(nvml_->samples, 0) << "GPM samples leaked";
    EXPECT_EQ(nvml_->event_sets, 0) << "event sets leaked";
    ScriptedNvml::TearDown();
  }
  static FakeNvmlGpu Gpu(const char* uuid, const char* bus) {
    FakeNvmlGpu gpu;
    gpu.uuid = uuid;
    gpu.bus_id = bus;
    gpu.memory = {.version = 0,
                  .total = 40'960 * kMib,
                  .reserved = 424 * kMib,
                  .free = 30'536 * kMib,
                  .used = 10'000 * kMib};
    return gpu;
  }
  static nvml::ProcessInfo Process(std::uint32_t pid, std::uint64_t mib) {
    return {pid, mib * kMib, nvml::kNoValue32, nvml::kNoValue32};
  }
  Reading MustRead(std::size_t device) {
    ReadResult<Reading> reading = probe_->Read(device, base::FromMs(5));
    EXPECT_TRUE(reading) << reading.error().message;
    return reading.value_or(Reading{});
  }

  std::unique_ptr<Probe> probe_;
};

}  // namespace carma::gpu
