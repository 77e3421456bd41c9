// Speeds of GPU types that were not measured here.
#pragma once

#include <span>
#include <string>

#include "core/values/pace.h"

namespace carma::daemon {

// core::GpuInfo::speed of that model, relative to an A100-40GB: as configured, else from the
// built-in tables (data/gpus). 0: unknown.
double SpeedOfModel(const std::string& name, std::span<const core::TypeSpeed> configured);

}  // namespace carma::daemon
