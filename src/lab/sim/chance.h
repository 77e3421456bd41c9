// Random values per task and purpose. They do not depend on anything else in the run, so runs of
// several policies with one seed have the same tasks.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace carma::sim {

enum class Draw : std::uint64_t { kNoise, kFailure, kEstimate, kProfile };

inline base::Rng Chance(std::uint64_t seed, Draw draw, std::uint64_t task) {
  base::Rng by_purpose(seed * 4 + static_cast<std::uint64_t>(draw));
  return base::Rng(by_purpose.Next() + task);
}

}  // namespace carma::sim
