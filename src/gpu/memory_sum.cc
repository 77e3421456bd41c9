#include "gpu/memory_sum.h"

#include <cstdlib>

#include "gpu/nvml_library.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

bool Told(const nvml::MemoryV2& memory) {
  return memory.total != nvml::kNoValue64 && memory.reserved != nvml::kNoValue64 &&
         memory.free != nvml::kNoValue64 && memory.used != nvml::kNoValue64;
}

// Allows for rounding in each amount.
bool AddsUp(const UnevenMemory& memory) {
  const std::int64_t sum_mib = memory.reserved_mib + memory.free_mib + memory.used_mib;
  return std::abs(memory.total_mib - sum_mib) <= 4;
}

}  // namespace

std::vector<UnevenMemory> AskUnevenMemory(const std::string& library) {
  const Result<NvmlLibrary> nvml = LoadNvml(library);
  if (!nvml || nvml->api.memory_v2 == nullptr) return {};
  std::vector<UnevenMemory> uneven;
  NvmlSession(nvml->api).ForEachGpu([&](nvml::Device device, const std::string& uuid) {
    nvml::MemoryV2 memory{};
    memory.version = nvml::StructVersion<nvml::MemoryV2>(2);
    if (nvml->api.memory_v2(device, &memory) != nvml::kSuccess || !Told(memory)) return;
    const UnevenMemory found{.uuid = uuid,
                             .total_mib = WholeMib(Bytes(memory.total)).value(),
                             .reserved_mib = WholeMib(Bytes(memory.reserved)).value(),
                             .free_mib = WholeMib(Bytes(memory.free)).value(),
                             .used_mib = WholeMib(Bytes(memory.used)).value()};
    if (!AddsUp(found)) uneven.push_back(found);
  });
  return uneven;
}

}  // namespace carma::gpu
