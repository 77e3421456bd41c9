// How workloads use a GPU, as measured by `carma profile` on this server: a file with one line for
// each workload and GPU type (docs/server/profile.md).
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

// Names of workloads and types: no control characters, no '#' at the start (a comment in CSV).
bool IsName(std::string_view text);
inline constexpr std::string_view kNameRule =
    "expected printable text of 1 to 200 bytes that does not begin with '#'";

struct WorkloadProfile {
  std::string workload;
  std::string gpu_type;  // the driver's name; for an instance with its profile
  // Signature by which the daemon recognises a submission of the same training
  // (estimate/signature.h); empty: unknown.
  std::string signature;
  // Measured alone on such a GPU.
  std::optional<double> sm_active;  // u: mean SM activity while it computes, 0..1
  double load_s = 0;                // from its start until it computes
  double time_s = 0;                // of computing, t0; all of its work
  std::optional<double> iterations;
  std::optional<std::int64_t> memory_mib;  // peak
  // Under MPS slowdown_i = 1 + s_i * sum of the neighbours' p_j. Absent: it never had neighbours.
  // Only the products s_i * p_j can be measured; the scale is the one of kPressurePerActivity.
  std::optional<double> sensitivity;  // s
  std::optional<double> pressure;     // p
  // The evidence.
  int runs = 0;                     // alone
  double time_spread = 0;           // standard deviation over mean of time_s; 0 for one run
  int meetings = 0;                 // runs beside neighbours under MPS that s and p rest on
  std::optional<double> fit_error;  // mean |log(slowdown by s and p / measured)| in these runs
  friend bool operator==(const WorkloadProfile&, const WorkloadProfile&) = default;
};

// The geometric mean of p / u over the workloads of one fit is scaled to this, the mean of the 22
// measured rows of the built-in catalogue. So workloads measured here, those of the catalogue and
// guessed ones (core/mps_guess.h) can be combined on one GPU.
inline constexpr double kPressurePerActivity = 0.72;

// One iteration alone, in s; empty: number of iterations unknown.
std::optional<double> IterationS(const WorkloadProfile& profile);

// CSV with a header line, in the order given; numbers are read back exactly.
std::string ProfilesCsv(std::span<const WorkloadProfile> profiles);
// where: the file's name for messages. Errors: kInvalid with the line: a column missing, a value
// out of its range, sensitivity without pressure, a workload twice on one type of GPU.
Result<std::vector<WorkloadProfile>> ParseProfiles(std::string_view text, std::string_view where);

}  // namespace carma::profile
