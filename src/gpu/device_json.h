// Converts devices to and from JSON for recordings and for the daemon's list of known GPUs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "gpu/probe.h"

namespace carma::gpu {

// Absent values are left out, so older and newer files can both be read.
nlohmann::json DeviceToJson(const DeviceInfo& info);
// Errors: kInvalid with the place below `pointer`: no name, or neither memory nor a trouble
// that explains why there is none.
Result<DeviceInfo> DeviceFromJson(const nlohmann::json& json, const std::string& pointer);

}  // namespace carma::gpu
