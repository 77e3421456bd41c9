#include "daemon/known_gpus.h"

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace carma::daemon {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;

std::string PathIn(const std::string& state_dir) {
  return state_dir + "/gpus.json";
}

}  // namespace

std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir) {
  const base::Result<std::string> text = base::ReadFile(PathIn(state_dir), kMaxBytes);
  if (!text) return {};
  const base::Result<base::Json> json = base::ParseJson(*text);
  if (!json || !json->is_array()) return {};
  std::vector<gpu::DeviceInfo> devices;
  for (const base::Json& each : *json) {
    gpu::DeviceInfo device;
    base::JsonReader in(each, "/" + std::to_string(devices.size()));
    in.Get("uuid", device.uuid);
    in.Get("name", device.name);
    in.Get("pci", device.pci);
    in.Get("total_mib", device.total_mib, 0, std::int64_t{1} << 40);
    in.Get("reserved_mib", device.reserved_mib, 0, std::int64_t{1} << 40);
    in.Get("reports_sm_activity", device.reports_sm_activity);
    if (in.error()) {
      base::LogWarn("known_gpus_damaged", {{"why", in.error()->message}});
      return {};
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices) {
  if (KnownGpus(state_dir) == devices) return;
  base::Json json = base::Json::array();
  for (const gpu::DeviceInfo& device : devices) {
    json.push_back({{"uuid", device.uuid},
                    {"name", device.name},
                    {"pci", device.pci},
                    {"total_mib", device.total_mib},
                    {"reserved_mib", device.reserved_mib},
                    {"reports_sm_activity", device.reports_sm_activity}});
  }
  const base::Result<base::Unit> written =
      base::WriteFileAtomic(PathIn(state_dir), base::DumpJson(json), 0600);
  if (!written) base::LogWarn("known_gpus_not_kept", {{"why", written.error().message}});
}

}  // namespace carma::daemon
