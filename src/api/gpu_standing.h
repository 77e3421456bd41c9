// The state of a GPU in one word (GpuView::state).
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "api/gpu_view.h"
#include "base/words.h"

namespace carma::api {

// The state names ("mix", "drng") are the ones that users know from cluster managers such as Slurm.
enum class GpuStanding {
  kIdle,      // has no tasks
  kShared,    // open to more tasks
  kHeld,      // held by an exclusive task
  kDrained,   // closed to new tasks, and empty
  kDraining,  // closed to new tasks, but some are still running
  kDown,      // not usable
};
inline constexpr std::pair<GpuStanding, std::string_view> kGpuStandingWords[] = {
    {GpuStanding::kIdle, "idle"},     {GpuStanding::kShared, "mix"},
    {GpuStanding::kHeld, "alloc"},    {GpuStanding::kDrained, "drain"},
    {GpuStanding::kDraining, "drng"}, {GpuStanding::kDown, "down"}};

}  // namespace carma::api

template <>
inline constexpr carma::base::Words<carma::api::GpuStanding>
    carma::base::kWordsOf<carma::api::GpuStanding> = carma::api::kGpuStandingWords;

namespace carma::api {

// Returns nullopt for an unknown state, which a newer carmad may report.
inline std::optional<GpuStanding> StandingOf(const GpuView& gpu) {
  return base::FromWord<GpuStanding>(gpu.state);
}

}  // namespace carma::api
