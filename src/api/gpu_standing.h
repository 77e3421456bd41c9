// The state of a GPU in one word: GpuView::state.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "api/gpu_view.h"
#include "base/words.h"

namespace carma::api {

// The names are those that cluster managers use.
enum class GpuStanding {
  kIdle,      // nothing on it
  kShared,    // open to more tasks
  kHeld,      // by an exclusive task
  kDrained,   // closed and empty
  kDraining,  // closed, tasks still on it
  kDown,      // not usable
};
inline constexpr std::pair<GpuStanding, std::string_view> kGpuStandingWords[] = {
    {GpuStanding::kIdle, "idle"},     {GpuStanding::kShared, "mix"},
    {GpuStanding::kHeld, "alloc"},    {GpuStanding::kDrained, "drain"},
    {GpuStanding::kDraining, "drng"}, {GpuStanding::kDown, "down"}};

// Empty: an unknown state, which a newer carmad may send.
std::optional<GpuStanding> StandingOf(const GpuView& gpu);

}  // namespace carma::api

template <>
inline constexpr carma::base::Words<carma::api::GpuStanding>
    carma::base::kWordsOf<carma::api::GpuStanding> = carma::api::kGpuStandingWords;
