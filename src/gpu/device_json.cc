#include "gpu/device_json.h"

#include "base/json.h"
#include "base/text.h"

namespace carma::gpu {
namespace {

using base::Json;
using base::JsonReader;

constexpr std::int64_t kMaxMib = std::int64_t{1} << 40;
constexpr std::size_t kMaxText = 200;
constexpr std::size_t kMostLinked = 1024;
constexpr std::size_t kMaxTrouble = 4'096;
constexpr int kMaxInstance = 1 << 20;

Json PlaceToJson(const MigPlace& place) {
  return {{"parent", place.parent_uuid},
          {"gpu_instance", place.gpu_instance},
          {"compute_instance", place.compute_instance},
          {"profile", place.profile},
          {"profile_name", place.profile_name}};
}

base::Result<MigPlace> PlaceFromJson(const Json& json, const std::string& pointer) {
  MigPlace place;
  JsonReader in(json, pointer);
  in.Get("parent", place.parent_uuid, kMaxText);
  in.Get("gpu_instance", place.gpu_instance, 0, kMaxInstance);
  in.Get("compute_instance", place.compute_instance, 0, kMaxInstance);
  in.Get("profile", place.profile, -1, kMaxInstance);
  in.Get("profile_name", place.profile_name, kMaxText);
  if (in.error()) return std::unexpected(*in.error());
  return place;
}

}  // namespace

Json DeviceToJson(const DeviceInfo& info) {
  Json json = {{"uuid", info.uuid},
               {"name", info.name},
               {"pci", info.pci},
               {"total_mib", info.total_mib},
               {"reserved_mib", info.reserved_mib},
               {"reports_sm_activity", info.reports_sm_activity}};
  if (!info.linked_to.empty()) json["linked_to"] = info.linked_to;
  if (info.mig) json["mig"] = PlaceToJson(*info.mig);
  if (!info.trouble.empty()) json["trouble"] = info.trouble.text;
  if (!info.trouble.gpu.empty()) json["trouble_gpu"] = info.trouble.gpu;
  if (info.trouble.cause != TroubleCause::kOther) {
    json["trouble_cause"] = base::WordOf(info.trouble.cause);
  }
  return json;
}

base::Result<DeviceInfo> DeviceFromJson(const Json& json, const std::string& pointer) {
  DeviceInfo info;
  JsonReader in(json, pointer);
  in.Get("uuid", info.uuid, kMaxText);
  in.Get("name", info.name, kMaxText);
  in.Get("pci", info.pci, kMaxText);
  in.Get("trouble", info.trouble.text, kMaxTrouble);
  in.Get("trouble_gpu", info.trouble.gpu, kMaxText);
  std::string cause;
  in.Get("trouble_cause", cause, kMaxText);
  in.Get("total_mib", info.total_mib, info.trouble.empty() ? 1 : 0, kMaxMib);
  in.Get("reserved_mib", info.reserved_mib, 0, kMaxMib);
  in.Get("reports_sm_activity", info.reports_sm_activity);
  if (const Json* linked = in.Raw("linked_to"); linked && !linked->is_null()) {
    if (!linked->is_array() || linked->size() > kMostLinked) in.Complain("linked_to", "a list");
    for (std::size_t i = 0; !in.error() && i < linked->size(); ++i) {
      const Json& each = (*linked)[i];
      if (!each.is_string() || each.get_ref<const std::string&>().size() > kMaxText) {
        in.Complain("linked_to", "a list of UUIDs");
      } else {
        info.linked_to.push_back(each);
      }
    }
  }
  if (const Json* place = in.Raw("mig"); place && !place->is_null()) {
    base::Result<MigPlace> read = PlaceFromJson(*place, pointer + "/mig");
    if (!read) return std::unexpected(read.error());
    info.mig = std::move(*read);
  }
  if (!in.error() && info.uuid.empty()) in.Complain("uuid", "the name of a GPU");
  if (!in.error() && info.total_mib == 0 && info.trouble.empty()) {
    in.Complain("total_mib", "the memory of the GPU");
  }
  if (in.error()) return std::unexpected(*in.error());
  // A cause from a later version is unknown here.
  info.trouble = {base::Printable(info.trouble.text, kMaxTrouble),
                  base::FromWord<TroubleCause>(cause).value_or(TroubleCause::kOther),
                  base::Printable(info.trouble.gpu, kMaxText)};
  return info;
}

}  // namespace carma::gpu
