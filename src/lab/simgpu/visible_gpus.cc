#include "lab/simgpu/visible_gpus.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "base/file.h"
#include "base/process_id.h"
#include "base/text.h"
#include "base/try.h"

namespace carma::simgpu {
namespace {

// Finds the GPU or instance with this number. An instance has a number only if its GPU is not in
// the list.
const GpuIdentity* NumberedPlace(const std::vector<GpuIdentity>& places, std::int64_t number) {
  for (const GpuIdentity& place : places) {
    const auto whole = std::ranges::find(places, place.parent_uuid, &GpuIdentity::uuid);
    if (whole == places.end() && number-- == 0) return &place;
  }
  return nullptr;
}

// Finds a GPU or instance by its UUID or an unambiguous prefix of it.
const GpuIdentity* NamedPlace(const std::vector<GpuIdentity>& places, std::string_view name) {
  if (!name.starts_with("GPU-") && !name.starts_with("MIG-")) return nullptr;
  const GpuIdentity* found = nullptr;
  for (const GpuIdentity& place : places) {
    if (!place.uuid.starts_with(name)) continue;
    if (found != nullptr) return nullptr;
    found = &place;
  }
  return found;
}

// The GPU or instance that one entry of CUDA_VISIBLE_DEVICES makes visible; null if there is none.
const GpuIdentity* FindPlace(const std::vector<GpuIdentity>& places, std::string_view name) {
  const auto number = base::ParseInt(name);
  const GpuIdentity* const found =
      number && *number >= 0 ? NumberedPlace(places, *number) : NamedPlace(places, name);
  if (found == nullptr || !found->mig) return found;
  const auto first = std::ranges::find(places, found->uuid, &GpuIdentity::parent_uuid);
  return first == places.end() ? nullptr : &*first;
}

std::optional<std::int64_t> LimitOf(const MpsMemoryLimits& limits, int device) {
  const auto found = limits.find(device);
  return found == limits.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

Result<std::vector<int>> VisibleGpus(const std::vector<GpuIdentity>& places,
                                     std::string_view visible_devices) {
  std::vector<int> visible;
  for (const std::string_view piece : base::Split(visible_devices, ',')) {
    const std::string_view name = base::Trim(piece);
    const GpuIdentity* const found = FindPlace(places, name);
    if (found == nullptr) break;
    const auto place = static_cast<int>(found - places.data());
    if (std::ranges::find(visible, place) != visible.end())
      return Invalid("'" + base::Printable(name, 60) + "' names a GPU twice");
    const bool instance = !found->parent_uuid.empty();
    if (instance && !visible.empty()) break;
    visible.push_back(place);
    if (instance) break;
  }
  return visible;
}

Result<MpsView> SeeThroughMps(const std::vector<GpuIdentity>& places, const MpsWelcome& welcome,
                              std::string_view visible_devices, const MpsMemoryLimits& limits) {
  std::vector<int> served(places.size());
  std::iota(served.begin(), served.end(), 0);
  if (welcome.visible_devices) served = CARMA_TRY(VisibleGpus(places, *welcome.visible_devices));
  std::vector<GpuIdentity> identities;
  for (const int gpu : served) identities.push_back(places[static_cast<std::size_t>(gpu)]);
  if (identities.empty()) return MpsView{};
  const std::vector<int> chosen = CARMA_TRY(VisibleGpus(identities, visible_devices));
  MpsView view;
  // Like CUDA, drops all limits if one of them is for a device that the process does not see.
  const bool dropped = !limits.empty() && limits.rbegin()->first >= static_cast<int>(chosen.size());
  for (const int device : chosen) {
    view.gpus.push_back(served[static_cast<std::size_t>(device)]);
    const auto own = dropped ? std::nullopt : LimitOf(limits, device);
    const auto common = LimitOf(welcome.memory_limits, device);
    view.limits_mib.push_back(own && common ? std::min(own, common) : own ? own : common);
  }
  return view;
}

// The folder is the group's path below the mount point of the cgroup v2 tree.
std::string OwnGroup() {
  std::string path = base::CgroupOf(::getpid());
  const std::string mounts = base::ReadFile("/proc/self/mountinfo", 1 << 20).value_or("");
  for (const std::string_view line : base::Split(mounts, '\n')) {
    const std::vector<std::string_view> words = base::SplitWords(line);
    if (words.size() < 5 || line.find(" - cgroup2 ") == std::string_view::npos) continue;
    if (words[3] != "/" && path.starts_with(words[3])) path.erase(0, words[3].size());
    return path.empty() || path == "/" ? "" : std::string(words[4]) + path;
  }
  return "";
}

}  // namespace carma::simgpu
