#include "daemon/gpus/known_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/try.h"
#include "gpu/reading_json.h"
#include "gpu/same_gpus.h"

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

bool Contains(gpu::GpuEntries entries, const gpu::DeviceInfo& device) {
  return std::ranges::find(entries, device.uuid, &gpu::DeviceInfo::uuid) != entries.end();
}

// The current devices of one GPU, with earlier descriptions of those that cannot be described now.
std::vector<gpu::DeviceInfo> RecognisedGpu(gpu::GpuEntries now, gpu::GpuEntries before) {
  // If MIG was off before, the stored entry is a whole GPU, which MPS servers would try to use.
  if (now.front().trouble.cause == gpu::TroubleCause::kHiddenInstances &&
      (before.empty() || !before.front().mig))
    return {now.begin(), now.end()};
  // If an entry may stand for several instances, the stored entries are used instead, but only if
  // all other entries were known before. Otherwise the GPU has been divided differently.
  const bool replaces = !before.empty() && std::ranges::none_of(before, gpu::IsUnidentified) &&
                        std::ranges::any_of(now, gpu::StandsForOthers) &&
                        std::ranges::all_of(now, [&](const gpu::DeviceInfo& each) {
                          return gpu::StandsForOthers(each) || Contains(before, each);
                        });
  const gpu::GpuEntries shown = replaces ? before : now;
  std::vector<gpu::DeviceInfo> recognised;
  for (const gpu::DeviceInfo& device : shown) {
    const gpu::DeviceInfo& listed = *gpu::EntryFor(device, now);
    const auto known = std::ranges::find(before, device.uuid, &gpu::DeviceInfo::uuid);
    const bool described = gpu::IsDescribed(listed) || known == before.end();
    recognised.push_back(described ? listed : *known);
    recognised.back().trouble = listed.trouble;
  }
  return recognised;
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

std::vector<gpu::DeviceInfo> Recognised(const std::vector<gpu::DeviceInfo>& devices,
                                        const std::vector<gpu::DeviceInfo>& known) {
  const std::vector<gpu::GpuEntries> gpus = gpu::EntriesByGpu(devices);
  const std::vector<gpu::GpuEntries> before = gpu::SameGpus(devices, known);
  std::vector<gpu::DeviceInfo> recognised;
  for (std::size_t i = 0; i < gpus.size(); ++i)
    std::ranges::move(RecognisedGpu(gpus[i], before[i]), std::back_inserter(recognised));
  return recognised;
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
  // An unidentified GPU may be a known one that does not appear in the list.
  const bool forgets = std::ranges::any_of(kept, gpu::IsUnidentified) &&
                       !std::ranges::all_of(known, [&](const gpu::DeviceInfo& before) {
                         return gpu::IsUnidentified(before) || Contains(kept, before);
                       });
  if (kept == known || forgets) return;
  base::Json json = base::Json::array();
  for (const gpu::DeviceInfo& device : kept) json.push_back(gpu::DeviceToJson(device));
  const Result<Unit> written = base::WriteFileAtomic(PathIn(state_dir), base::DumpJson(json), 0600);
  if (!written) base::LogWarn("known_gpus_not_kept", {{"why", written.error().message}});
}

}  // namespace carma::daemon
