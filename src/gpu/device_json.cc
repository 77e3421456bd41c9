#include "gpu/device_json.h"

#include "base/fields_json.h"
#include "base/text.h"

namespace carma::gpu {

using base::Json;

Json DeviceToJson(const DeviceInfo& info) {
  Json json = base::FieldsToJson(info, base::Absent::kLeftOut);
  if (info.trouble.cause != TroubleCause::kOther)
    json["trouble_cause"] = base::WordOf(info.trouble.cause);
  return json;
}

Result<DeviceInfo> DeviceFromJson(const Json& json, const std::string& pointer) {
  DeviceInfo info;
  std::string cause;
  base::JsonReader in(json, pointer);
  base::FieldReader reader(in, base::Unknown::kPassedOver);
  DeviceInfo::VisitFields(reader, info);
  in.Get("trouble_cause", cause, kNameRule.max_bytes);
  if (info.uuid.empty()) in.Complain("uuid", "the name of a GPU");
  if (info.total_mib == 0 && info.trouble.empty())
    in.Complain("total_mib", "the memory of the GPU");
  if (in.error()) return std::unexpected(*in.error());
  // The cause may come from a newer version, so it may be unknown here.
  info.trouble = {base::Printable(info.trouble.text, 4'096),
                  base::FromWord<TroubleCause>(cause).value_or(TroubleCause::kOther),
                  base::Printable(info.trouble.gpu, kNameRule.max_bytes)};
  return info;
}

}  // namespace carma::gpu
