#include "gpu/mig_mode.h"

#include <cstdint>
#include <cstring>

#include "gpu/nvml_library.h"

namespace carma::gpu {

std::vector<PendingMigMode> AskPendingMigModes(const std::string& library) {
  const base::Result<NvmlLibrary> nvml = LoadNvml(library);
  if (!nvml || nvml->api.mig_mode == nullptr) return {};
  const NvmlApi& api = nvml->api;
  const NvmlSession session(api);
  std::uint32_t count = 0;
  if (!session.open() || api.count(&count) != nvml::kSuccess) return {};
  std::vector<PendingMigMode> pending;
  for (std::uint32_t i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    std::uint32_t now = 0, later = 0;
    char uuid[nvml::kUuidBytes] = {};
    if (api.by_index(i, &device) != nvml::kSuccess ||
        api.mig_mode(device, &now, &later) != nvml::kSuccess || now == later || later > 1 ||
        api.uuid(device, uuid, sizeof uuid) != nvml::kSuccess) {
      continue;
    }
    pending.push_back({.uuid = {uuid, ::strnlen(uuid, sizeof uuid)}, .on = later == 1});
  }
  return pending;
}

}  // namespace carma::gpu
