// Reads and writes the profiles file, in which `carma profile` stores how workloads use this
// server's GPUs. The file has one line for each workload and GPU type (docs/server/profile.md).
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

// A file that exceeds one of these limits is rejected.
inline constexpr std::size_t kMaxProfiles = 100'000;
inline constexpr std::size_t kMaxProfilesBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxNameBytes = 200;

// Returns true if the text is a valid name for a workload or GPU type (kNameRule). A '#' at the
// beginning would start a comment in CSV.
bool IsName(std::string_view text);
inline constexpr std::string_view kNameRule =
    "expected printable text of 1 to 200 bytes that does not begin with '#'";

struct WorkloadProfile {
  std::string workload;
  std::string gpu_type;  // as the driver names it; for a MIG instance, including its profile
  // The daemon recognises a submission of the same training job by this signature
  // (estimate/signature.h). Empty if unknown.
  std::string signature;
  // The following values were measured while the workload ran alone on a GPU of this type.
  std::optional<double> sm_active;  // u: mean SM activity while computing, 0..1
  double load_s = 0;                // from the start until computing begins
  double time_s = 0;                // t0: computing time for all of its work
  std::optional<double> iterations;
  std::optional<std::int64_t> memory_mib;  // peak
  // Under MPS, slowdown_i = 1 + s_i * sum of the neighbours' p_j. Empty if the workload never had
  // neighbours. Only the products s_i * p_j can be measured, so kPressurePerActivity sets the
  // scale.
  std::optional<double> sensitivity;  // s
  std::optional<double> pressure;     // p
  // How reliable these values are.
  int runs = 0;                     // solo runs
  double time_spread = 0;           // standard deviation over mean of time_s; 0 for one run
  int meetings = 0;                 // runs with neighbours under MPS that s and p are fitted to
  std::optional<double> fit_error;  // mean |log(predicted / measured slowdown)|
  friend bool operator==(const WorkloadProfile&, const WorkloadProfile&) = default;
};

// Each fit scales its workloads' p so that the geometric mean of p / u is this value, the mean of
// the 22 measured rows of the built-in catalogue. This lets measured workloads, catalogue workloads
// and guessed parameters (core/values/mps_guess.h) be combined on one GPU.
inline constexpr double kPressurePerActivity = 0.72;

// Seconds per iteration when the workload runs alone. Empty if the number of iterations is unknown.
std::optional<double> IterationS(const WorkloadProfile& profile);

// CSV with a header line. The profiles keep their order, and numbers are read back exactly.
std::string ProfilesCsv(std::span<const WorkloadProfile> profiles);
// where: the file name used in messages. Returns kInvalid, naming the line, if a column is missing,
// a value is out of range, sensitivity or pressure is given without the other, or a workload and
// GPU type have a second line.
Result<std::vector<WorkloadProfile>> ParseProfiles(std::string_view text, std::string_view where);

}  // namespace carma::profile
