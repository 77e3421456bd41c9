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
// Stands in a command for the number of steps that the calibration came to.
inline constexpr std::string_view kStepsWord = "{steps}";

struct ProfiledWorkload {
  std::string name;
  std::vector<std::string> command;
  // A run that says how many steps it did, as "steps" of a JSON object in its last such line of
  // output; empty: the command is complete as it stands.
  std::vector<std::string> calibrate;
  std::string workdir;               // absolute; empty: where `carma profile` was called
  std::optional<double> iterations;  // in all of its work
  std::optional<double> load_s;      // from its start until it computes; empty: measured
  std::optional<double> seconds;     // alone, about: for the estimate of the time only
  // What a submission of it says besides its command, as one JSON object of task::TaskSpec; empty:
  // nothing.
  std::string task;
  friend bool operator==(const ProfiledWorkload&, const ProfiledWorkload&) = default;
};

// One JSON object a line; empty lines and those that begin with '#' are none. "command" is a list
// of words, or a text for /bin/sh. Errors: kInvalid with the line.
base::Result<std::vector<ProfiledWorkload>> ParseProfiledWorkloads(std::string_view text,
                                                                   std::string_view where);
std::string ProfiledWorkloadJson(const ProfiledWorkload& workload);

// Tasks of the built-in catalogue, of one GPU each, played by carma-simtask for `seconds` of
// computing; for simulated servers. names: empty: a light one, two medium ones and a heavy one.
// Errors: kNotFound: no such workload; kInvalid: one of several GPUs.
base::Result<std::vector<ProfiledWorkload>> SimulatedWorkloads(std::span<const std::string> names,
                                                               const std::string& simtask,
                                                               double seconds);
// Networks of the proof on real hardware (bench/gpu/train_task.py, which needs PyTorch), as many
// steps each as `seconds` hold. names: empty: a light one, two medium ones and a heavy one. Errors:
// kNotFound, kInvalid (not NETWORK-bBATCH).
base::Result<std::vector<ProfiledWorkload>> TrainedWorkloads(std::span<const std::string> names,
                                                             const std::string& python,
                                                             const std::string& script,
                                                             double seconds);

// How the daemon knows a submission of the same command by that user from the same folder
// (estimate/signature.h); reads the summary that `task` names. folder: where `carma profile` was
// called. Errors: kInvalid: no submission could be like that.
base::Result<std::string> SignatureOf(const ProfiledWorkload& workload, const std::string& folder,
                                      std::uint32_t uid);

// The steps that a calibration's output tells. Errors: kInvalid: none, or none that can be.
base::Result<double> StepsTold(std::string_view output);
// The workload with its steps in the command, its iterations being those, without calibration.
ProfiledWorkload WithSteps(const ProfiledWorkload& workload, double steps);

}  // namespace carma::cli
