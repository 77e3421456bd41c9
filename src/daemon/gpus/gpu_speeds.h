// Known speeds of GPU types.
#pragma once

#include <span>
#include <string>

#include "core/values/pace.h"

namespace carma::daemon {

// The speed of a GPU model relative to an A100-40GB, for core::GpuInfo::speed: the configured
// value, else that of the built-in tables (data/gpus). 0: unknown.
double SpeedOfModel(const std::string& name, std::span<const core::TypeSpeed> configured);

}  // namespace carma::daemon
