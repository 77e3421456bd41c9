// The GPU types a simulated server can have (data/gpus/gpus.csv), and shapes of servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/models.h"

namespace carma::sim {

inline constexpr int kMaxServerGpus = 64;
inline constexpr std::size_t kMaxTypeBytes = 31;
inline constexpr std::size_t kMaxNvmlNameBytes = 63;

struct GpuType {
  std::string type;       // "A100-40GB"
  std::string nvml_name;  // "NVIDIA A100-SXM4-40GB"
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  int sms = 0;
  PowerModel power;
  double relative_speed = 1;  // pace of a training task against an A100-40GB
};

// The built-in table. Errors: kInvalid with the line.
base::Result<std::vector<GpuType>> ParseGpuTypes(std::string_view csv);
const std::vector<GpuType>& GpuTypes();

// "4xA100-40GB", "2xA100-40GB,1xH100-80GB", "A100-40GB" -> one entry per GPU, in order; case is
// ignored. Errors: kInvalid: unknown type (the message lists the known ones), no GPU or more than
// kMaxServerGpus.
base::Result<std::vector<GpuType>> ParseShape(std::string_view shape);

}  // namespace carma::sim
