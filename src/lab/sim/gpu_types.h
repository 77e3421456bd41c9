// The GPU types that a simulated server can have (data/gpus/gpus.csv), and server shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/sim/models.h"

namespace carma::sim {

inline constexpr int kMaxServerGpus = 64;
inline constexpr std::size_t kMaxTypeBytes = 31;
inline constexpr std::size_t kMaxNvmlNameBytes = 63;

// One MIG instance: how many of the GPU's seven compute and eight memory slices it has.
struct MigSlices {
  int compute = 0;
  int memory = 0;
  int profile = -1;  // NVIDIA's profile number; -1: unknown
  friend bool operator==(const MigSlices&, const MigSlices&) = default;
};
inline constexpr int kMigComputeSlices = 7;
inline constexpr int kMigMemorySlices = 8;

struct GpuType {
  std::string type;       // "A100-40GB"
  std::string nvml_name;  // "NVIDIA A100-SXM4-40GB"
  std::int64_t total_mib = 0;
  std::int64_t reserved_mib = 0;
  int sms = 0;
  PowerModel power;
  double relative_speed = 1;  // training speed relative to an A100-40GB
};

// Parses the built-in table. Returns kInvalid with the line number if a line is malformed.
Result<std::vector<GpuType>> ParseGpuTypes(std::string_view csv);
const std::vector<GpuType>& GpuTypes();

// Parses a shape: "4xA100-40GB", "2xA100-40GB,1xH100-80GB" or "A100-40GB". Returns one entry per
// GPU, in order. Case is ignored. Returns kInvalid for an unknown type (the message lists the known
// types), no GPUs, more than kMaxServerGpus, or a MIG partition.
Result<std::vector<GpuType>> ParseShape(std::string_view shape);

// A GPU in a server shape that may contain MIG partitions.
struct ShapedGpu {
  GpuType type;
  // An empty optional means that MIG is off; an empty list means that MIG is on but has no
  // instances.
  std::optional<std::vector<MigSlices>> mig;
};
// Parses a shape that can contain MIG partitions, such as "H100-80GB:mig=" or
// "2xA100-40GB,A100-80GB:mig=3g.40gb+2g.20gb+1g.10gb". A partition applies to every GPU of its
// group. Returns the errors of ParseShape. Also returns kInvalid for a type without MIG, a profile
// that the type does not have, or more slices than the GPU has.
Result<std::vector<ShapedGpu>> ParseDividedShape(std::string_view shape);
// NVIDIA's name for an instance with these slices on this type, such as "3g.20gb".
std::string MigProfileName(const GpuType& type, const MigSlices& slices);

// A partition of an A100 into equal MIG instances: NVIDIA's profiles 7g.40gb, 3g.20gb, 2g.10gb or
// 1g.5gb. The GPU has seven compute and eight memory slices.
struct MigProfile {
  int instances = 1;
  double compute = 1;  // share of the GPU's SMs in each instance
  double memory = 1;   // share of the GPU's memory in each instance
};
bool CanBeDivided(const GpuType& type);
// Null if a GPU cannot be partitioned into this many equal instances.
const MigProfile* FindMigProfile(int instances);

// Speed of a task on an instance with the share `compute` of a GPU's SMs, relative to the whole
// GPU:
//   ((1 + u^4) / (1 + (u / compute)^4))^(1/4), where u = sm_active on the whole GPU.
// This is a smooth version of min(1, compute / u). Compared with nine training runs on four
// instance sizes (MISO; u fitted to each run), its mean error is 4.9 % and its maximum error 16 %.
// For min(1, compute / u), the mean error is 6.3 % and the maximum error 21 %.
double MigSpeed(double compute, double sm_active);

}  // namespace carma::sim
