// What a task is expected to need, and what it is promised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/values/ids.h"

namespace carma::core {

// Expected peak per GPU.
struct Estimate {
  std::int64_t peak_mib = 0;  // what is promised: a bound, where the method has one
  std::string method;         // "given", "rad", "structural", "history" …
  // The most likely value, from which the bound was made; empty: peak_mib itself.
  std::optional<std::int64_t> predicted_mib;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

struct Placement {
  GpuIndex gpu{};
  // Promised from the moment of the decision; 0: there is no estimate, and only observed memory
  // counts.
  std::int64_t claim_mib = 0;
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Cores and main memory that an attempt is promised.
struct HostShare {
  int cpus = 0;                 // 0: none were counted for it
  std::int64_t memory_mib = 0;  // 0: none was counted for it
  std::string cores;            // those that are its own, as base/cpu_list.h writes them; or empty
  friend bool operator==(const HostShare&, const HostShare&) = default;
};

}  // namespace carma::core
