#include "gpu/mig_mode.h"

#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "gpu/nvml_library.h"

namespace carma::gpu {

std::vector<PendingMigMode> AskPendingMigModes(const std::string& library) {
  const Result<NvmlLibrary> nvml = LoadNvml(library);
  if (!nvml || nvml->api.mig_mode == nullptr) return {};
  std::vector<PendingMigMode> pending;
  NvmlSession(nvml->api).ForEachGpu([&](nvml::Device device, const std::string& uuid) {
    std::uint32_t now = 0, later = 0;
    const bool told = nvml->api.mig_mode(device, &now, &later) == nvml::kSuccess;
    if (told && now != later && later <= 1) pending.push_back({.uuid = uuid, .on = later == 1});
  });
  return pending;
}

double ComputeShareOf(const MigPlace& place) {
  for (const char letter : {'c', 'g'}) {
    const std::size_t end = place.profile_name.find(std::string(1, letter) + ".");
    if (end == std::string::npos) continue;
    const auto slices = base::ParseInt(std::string_view(place.profile_name).substr(0, end));
    if (slices && *slices >= 1 && *slices <= place.slices)
      return static_cast<double>(*slices) / place.slices;
  }
  return 1;
}

}  // namespace carma::gpu
