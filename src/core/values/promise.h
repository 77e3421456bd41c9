// A task's expected needs, and the memory and cores that it is promised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/values/ids.h"

namespace carma::core {

// Expected peak per GPU.
struct Estimate {
  std::int64_t peak_mib = 0;  // the value to promise: an upper bound if the method has one
  std::string method;         // "given", "rad", "structural", "history" …
  // The most likely peak, which the bound was derived from; empty: it equals peak_mib.
  std::optional<std::int64_t> predicted_mib;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

struct Placement {
  GpuIndex gpu{};
  // Memory promised from the moment of the decision. Without an estimate it is 0, and only observed
  // memory counts.
  std::int64_t claim_mib = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Cores and main memory that an attempt is promised.
struct HostShare {
  int cpus = 0;                 // 0: not counted
  std::int64_t memory_mib = 0;  // 0: not counted
  std::string cores;            // its dedicated cores in the format of base/cpu_list.h, or empty
  friend bool operator==(const HostShare&, const HostShare&) = default;
};

}  // namespace carma::core
