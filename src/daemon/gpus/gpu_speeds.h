// How fast types of GPU are, where nobody has measured them here.
#pragma once

#include <span>
#include <string>

#include "core/values/pace.h"

namespace carma::daemon {

// core::GpuInfo::speed of that model, against an A100-40GB: as the configuration has it, else by
// the built-in tables (data/gpus). 0: not known.
double SpeedOfModel(const std::string& name, std::span<const core::TypeSpeed> configured);

}  // namespace carma::daemon
