// Reads and writes the file in which `carma profile` stores how workloads use this server's GPUs,
// with one line for each workload and GPU type (docs/server/profile.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::profile {

// Limits beyond which a file is refused.
inline constexpr std::size_t kMaxProfiles = 100'000;
inline constexpr std::size_t kMaxProfilesBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxNameBytes = 200;

// Whether the text may name a workload or GPU type: no control characters, and no '#' at the start,
// which would be a comment in CSV.
bool IsName(std::string_view text);
inline constexpr std::string_view kNameRule =
    "expected printable text of 1 to 200 bytes that does not begin with '#'";

struct WorkloadProfile {
  std::string workload;
  std::string gpu_type;  // the driver's name; an instance's includes its profile
  // Signature by which the daemon recognises a submission of the same training
  // (estimate/signature.h). Empty if unknown.
  std::string signature;
  // Measured when alone on a GPU of this type.
  std::optional<double> sm_active;  // u: mean SM activity while computing, 0..1
  double load_s = 0;                // from the start until it computes
  double time_s = 0;                // t0: time of computing for all of its work
  std::optional<double> iterations;
  std::optional<std::int64_t> memory_mib;  // peak
  // Under MPS slowdown_i = 1 + s_i * sum of the neighbours' p_j. Absent if it never had neighbours.
  // Only the products s_i * p_j can be measured; kPressurePerActivity sets the scale.
  std::optional<double> sensitivity;  // s
  std::optional<double> pressure;     // p
  // The evidence.
  int runs = 0;                     // runs alone
  double time_spread = 0;           // standard deviation over mean of time_s; 0 for one run
  int meetings = 0;                 // runs with neighbours under MPS behind s and p
  std::optional<double> fit_error;  // mean |log(predicted / measured slowdown)|
  friend bool operator==(const WorkloadProfile&, const WorkloadProfile&) = default;
};

// The geometric mean of p / u over the workloads of one fit is scaled to this, the mean of the 22
// measured rows of the built-in catalogue. So measured workloads, workloads of the catalogue and
// guessed parameters (core/mps_guess.h) can be combined on one GPU.
inline constexpr double kPressurePerActivity = 0.72;

// Seconds per iteration when alone. Empty if the number of iterations is unknown.
std::optional<double> IterationS(const WorkloadProfile& profile);

// CSV with a header line, in the given order. Numbers are read back exactly.
std::string ProfilesCsv(std::span<const WorkloadProfile> profiles);
// where: the file's name for messages. Errors: kInvalid with the line for a missing column, a value
// out of range, sensitivity without pressure, or a workload twice on one GPU type.
Result<std::vector<WorkloadProfile>> ParseProfiles(std::string_view text, std::string_view where);

}  // namespace carma::profile
