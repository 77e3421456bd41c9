// Looks up the speed of a GPU model.
#pragma once

#include <span>
#include <string>

#include "core/values/pace.h"

namespace carma::daemon {

// The speed of a GPU model relative to an A100-40GB, for core::GpuInfo::speed. A configured value
// takes precedence over the built-in tables (data/gpus). Returns 0 if the speed is unknown.
double SpeedOfModel(const std::string& name, std::span<const core::TypeSpeed> configured);

}  // namespace carma::daemon
