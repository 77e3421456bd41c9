#include "daemon/gpus/known_gpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/try.h"
#include "gpu/reading_json.h"
#include "gpu/steady_probe.h"

namespace carma::daemon {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxDevices = 4'096;

std::string PathIn(const std::string& state_dir) {
  return state_dir + "/gpus.json";
}

Result<std::vector<gpu::DeviceInfo>> Parse(const std::string& text) {
  const base::Json json = CARMA_TRY(base::ParseJson(text));
  if (!json.is_array() || json.size() > kMaxDevices) return Invalid("expected a list of GPUs");
  std::vector<gpu::DeviceInfo> devices;
  for (const base::Json& each : json)
    devices.push_back(CARMA_TRY(gpu::DeviceFromJson(each, fmt::format("/{}", devices.size()))));
  return devices;
}

const gpu::DeviceInfo* Before(const gpu::DeviceInfo& device,
                              const std::vector<gpu::DeviceInfo>& known) {
  for (const gpu::DeviceInfo& before : known) {
    if (before.uuid == device.uuid) return &before;
  }
  // MIG instances are not found by address, because all instances of a GPU have the same one.
  const gpu::DeviceInfo* found = nullptr;
  for (const gpu::DeviceInfo& before : known) {
    if (device.pci.empty() || before.pci != device.pci) continue;
    if (found || before.mig) return nullptr;
    found = &before;
  }
  return found;
}

}  // namespace

std::vector<gpu::DeviceInfo> KnownGpus(const std::string& state_dir) {
  const Result<std::string> text = base::ReadFile(PathIn(state_dir), kMaxFileBytes);
  if (!text) return {};
  Result<std::vector<gpu::DeviceInfo>> devices = Parse(*text);
  if (devices) return std::move(*devices);
  base::LogWarn("known_gpus_damaged", {{"why", devices.error().message}});
  return {};
}

std::vector<gpu::DeviceInfo> Recognised(std::vector<gpu::DeviceInfo> devices,
                                        const std::vector<gpu::DeviceInfo>& known) {
  const bool same_places = gpu::SamePlaces(devices, known);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].trouble.empty() || devices[i].trouble.cause == gpu::TroubleCause::kNoInstance)
      continue;
    const gpu::DeviceInfo* before = Before(devices[i], known);
    if (!before && same_places) before = &known[i];
    if (!before || !before->trouble.empty()) continue;
    gpu::DeviceTrouble trouble = std::move(devices[i].trouble);
    devices[i] = *before;
    devices[i].trouble = std::move(trouble);
  }
  return devices;
}

std::vector<std::string> NoLongerListed(const std::vector<gpu::DeviceInfo>& known,
                                        const std::vector<gpu::DeviceInfo>& devices) {
  std::vector<std::string> gone;
  if (std::ranges::any_of(devices, [](const auto& each) { return !each.trouble.empty(); }))
    return gone;
  for (const gpu::DeviceInfo& before : known) {
    const bool listed = std::ranges::any_of(devices, [&](const gpu::DeviceInfo& now) {
      return now.uuid == before.uuid || now.pci == before.pci;
    });
    if (!listed) gone.push_back(fmt::format("{} ({} at {})", before.uuid, before.name, before.pci));
  }
  return gone;
}

void KeepKnownGpus(const std::string& state_dir, const std::vector<gpu::DeviceInfo>& devices) {
  const std::vector<gpu::DeviceInfo> known = KnownGpus(state_dir);
  std::vector<gpu::DeviceInfo> kept = Recognised(devices, known);
  for (gpu::DeviceInfo& device : kept) {
    if (device.total_mib > 0) device.trouble = {};
  }
  if (kept == known) return;
  base::Json json = base::Json::array();
  for (const gpu::DeviceInfo& device : kept) json.push_back(gpu::DeviceToJson(device));
  const Result<Unit> written = base::WriteFileAtomic(PathIn(state_dir), base::DumpJson(json), 0600);
  if (!written) base::LogWarn("known_gpus_not_kept", {{"why", written.error().message}});
}

}  // namespace carma::daemon
