#include "api/gpu_standing.h"

namespace carma::api {

std::optional<GpuStanding> StandingOf(const GpuView& gpu) {
  return base::FromWord<GpuStanding>(gpu.state);
}

}  // namespace carma::api
