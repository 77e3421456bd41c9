// What of a GPU may let a waiting task in: compared with an earlier look it says whether another
// look at the line can bring anything. Thousands of tasks may wait while samples arrive every
// second.
#pragma once

#include <cstdint>
#include <optional>

#include "core/policy/policy.h"

namespace carma::core {

struct GpuFingerprint {
  bool takes = false;    // in order, not closed, nobody wants it alone
  bool settled = false;  // GpuView::settled
  bool quiet = false;    // its activity does not keep tasks away
  std::int64_t free_mib = 0;
  std::optional<TaskId> reserved_for;
  std::uint64_t crowd = 0;  // another number whenever another crowd is there
};
GpuFingerprint FingerprintOf(const PolicyConfig& config, const GpuView& gpu, std::uint64_t crowd);

// Whoever it did not take before it does not take now.
bool OpensNothing(const GpuFingerprint& before, const GpuFingerprint& now);

}  // namespace carma::core
