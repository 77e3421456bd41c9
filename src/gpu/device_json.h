// How a device is written down: in recordings, and in the list of GPUs that the daemon keeps.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::gpu {

// What is absent is left out, so that older files and newer ones are read alike.
nlohmann::json DeviceToJson(const DeviceInfo& info);
// Errors: kInvalid with the place below `pointer`: no name, or neither memory nor a trouble that
// says why there is none.
base::Result<DeviceInfo> DeviceFromJson(const nlohmann::json& json, const std::string& pointer);

}  // namespace carma::gpu
