// The workloads that `carma profile` measures: commands that do a fixed amount of work.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace carma::cli {

inline constexpr std::size_t kMaxProfiledWorkloads = 64;
inline constexpr std::size_t kMaxWorkloadsBytes = std::size_t{1} << 20;
// Placeholder in a command for the number of steps from the calibration.
inline constexpr std::string_view kStepsWord = "{steps}";

struct ProfiledWorkload {
  std::string name;
  std::vector<std::string> command;
  // A command that reports its number of steps as "steps" of the last JSON object in its output;
  // empty: `command` needs no steps.
  std::vector<std::string> calibrate;
  std::string workdir;               // absolute; empty: where `carma profile` was called
  std::optional<double> iterations;  // of the whole work
  std::optional<double> load_s;      // from its start until it computes; empty: measured
  std::optional<double> seconds;     // approximate time alone, only for time estimates
  // Further fields of its submission, as a JSON object of task::TaskSpec; empty: none.
  std::string task;
  friend bool operator==(const ProfiledWorkload&, const ProfiledWorkload&) = default;
};

// One JSON object per line; empty lines and those that begin with '#' are ignored. "command" is a
// list of words, or a text for /bin/sh. Errors: kInvalid with the line.
Result<std::vector<ProfiledWorkload>> ParseProfiledWorkloads(std::string_view text,
                                                             std::string_view where);
std::string ProfiledWorkloadJson(const ProfiledWorkload& workload);

// Single-GPU tasks of the built-in catalogue, run by carma-simtask for `seconds` of computing; for
// simulated servers. names: if empty, a light one, two medium ones and a heavy one. Errors:
// kNotFound: no such workload; kInvalid: a workload needs several GPUs.
Result<std::vector<ProfiledWorkload>> SimulatedWorkloads(std::span<const std::string> names,
                                                         const std::string& simtask,
                                                         double seconds);
// Networks of the proof on real hardware (bench/gpu/train_task.py, which needs PyTorch), each
// trained for about `seconds`. names: if empty, a light one, two medium ones and a heavy one.
// Errors: kNotFound, kInvalid (not NETWORK-bBATCH).
Result<std::vector<ProfiledWorkload>> TrainedWorkloads(std::span<const std::string> names,
                                                       const std::string& python,
                                                       const std::string& script, double seconds);

// The signature under which the daemon knows this user's submission of the same command from the
// same folder (estimate/signature.h); reads the summary named by `task`. folder: where `carma
// profile` was called. Errors: kInvalid: not a valid submission.
Result<std::string> SignatureOf(const ProfiledWorkload& workload, const std::string& folder,
                                std::uint32_t uid);

// Reads the number of steps from a calibration's output. Errors: kInvalid if it is missing or
// impossible.
Result<double> StepsTold(std::string_view output);
// A copy of the workload without calibration, with the steps inserted in the command and used as
// iterations.
ProfiledWorkload WithSteps(const ProfiledWorkload& workload, double steps);

}  // namespace carma::cli
