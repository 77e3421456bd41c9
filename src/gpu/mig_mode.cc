#include "gpu/mig_mode.h"

#include <cstdint>

#include "gpu/nvml_library.h"

namespace carma::gpu {

std::vector<PendingMigMode> AskPendingMigModes(const std::string& library) {
  const base::Result<NvmlLibrary> nvml = LoadNvml(library);
  if (!nvml || nvml->api.mig_mode == nullptr) return {};
  std::vector<PendingMigMode> pending;
  NvmlSession(nvml->api).ForEachGpu([&](nvml::Device device, const std::string& uuid) {
    std::uint32_t now = 0, later = 0;
    const bool told = nvml->api.mig_mode(device, &now, &later) == nvml::kSuccess;
    if (told && now != later && later <= 1) pending.push_back({.uuid = uuid, .on = later == 1});
  });
  return pending;
}

}  // namespace carma::gpu
