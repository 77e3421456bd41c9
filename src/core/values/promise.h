// What a task is expected to need, and the memory and cores promised to it.
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
  // The most likely peak, which the bound was derived from. Empty if it equals peak_mib.
  std::optional<std::int64_t> predicted_mib;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

struct Placement {
  GpuIndex gpu{};
  // Memory promised as soon as the decision is made. 0 if there is no estimate; then only observed
  // memory counts.
  std::int64_t claim_mib = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Cores and host memory that an attempt is promised.
struct HostShare {
  int cpus = 0;                 // 0 if not counted
  std::int64_t memory_mib = 0;  // 0 if not counted
  std::string cores;            // its dedicated cores in the format of base/cpu_list.h, or empty
  friend bool operator==(const HostShare&, const HostShare&) = default;
};

}  // namespace carma::core
