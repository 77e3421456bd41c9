// Runs the program that limits the GPU memory of a control group (carma-reader). It gets a time
// limit, because it calls the driver, which may hang.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace carma::task {

struct GpuMemoryLimit {
  std::string uuid;           // UUID of a whole GPU
  std::int64_t soft_mib = 0;  // memory guaranteed to the group
  std::int64_t hard_mib = 0;  // maximum memory; 0: no limit
  friend bool operator==(const GpuMemoryLimit&, const GpuMemoryLimit&) = default;
};

// Converts limits to the strings in LaunchOrder::memory_limits: UUID, soft and hard limit for each
// GPU.
std::vector<std::string> LimitWords(const std::vector<GpuMemoryLimit>& limits);
// Returns a copy of `words` in which all soft limits are 0, so that no memory is guaranteed.
std::vector<std::string> HardLimitWords(const std::vector<std::string>& words);
// Returns a copy of `words` in which all limits are 0, which removes them.
std::vector<std::string> NoLimitWords(const std::vector<std::string>& words);

inline constexpr std::chrono::milliseconds kLimiterPatience{3'000};

// limiter: the program with its first arguments. group: full path. Blocks until the program has
// exited. Returns kUnavailable with the program's output if it fails or takes too long.
Result<Unit> LimitGpuMemory(const std::vector<std::string>& limiter, const std::string& group,
                            const std::vector<std::string>& words,
                            std::chrono::milliseconds patience = kLimiterPatience);

}  // namespace carma::task
