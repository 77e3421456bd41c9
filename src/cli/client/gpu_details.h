// Shows all facts about a GPU, for `carma gpus --verbose`.
#pragma once

#include <cstdint>
#include <string>

#include "api/gpu_view.h"
#include "cli/terminal.h"

namespace carma::cli {

// now_ms: the daemon's clock.
std::string GpuDetails(const api::GpuView& gpu, std::int64_t now_ms, const Screen& screen);

}  // namespace carma::cli
