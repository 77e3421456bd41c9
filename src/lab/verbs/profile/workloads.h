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
// Placeholder in a command, replaced by the number of steps from the calibration.
inline constexpr std::string_view kStepsWord = "{steps}";

struct ProfiledWorkload {
  std::string name;
  std::vector<std::string> command;
  // A command that prints the number of steps to run, in a line such as {"steps": 120}. The last
  // such line counts. Empty if `command` needs no steps.
  std::vector<std::string> calibrate;
  std::string workdir;               // absolute; empty: the folder where `carma profile` was called
  std::optional<double> iterations;  // iterations of the whole work
  std::optional<double> load_s;      // time from its start until it computes; empty: measured
  std::optional<double> seconds;     // approximate solo time, used only for time estimates
  // JSON object with additional task::TaskSpec fields for the submission; empty if there are none.
  std::string task;
  friend bool operator==(const ProfiledWorkload&, const ProfiledWorkload&) = default;
};

// Parses one JSON object per line; empty lines and lines that begin with '#' are ignored. "command"
// is a list of words, or a string for /bin/sh. Returns kInvalid with the number of an invalid line.
Result<std::vector<ProfiledWorkload>> ParseProfiledWorkloads(std::string_view text,
                                                             std::string_view where);
std::string ProfiledWorkloadJson(const ProfiledWorkload& workload);

// Workloads for simulated servers, taken from the built-in catalogue. carma-simtask simulates each
// of them with a solo run time of `seconds`. names: empty means one light, two medium and one heavy
// workload. Returns kNotFound for an unknown name, or kInvalid for a workload that needs several
// GPUs.
Result<std::vector<ProfiledWorkload>> SimulatedWorkloads(std::span<const std::string> names,
                                                         const std::string& simtask,
                                                         double seconds);
// Networks for measurements on real hardware (bench/gpu/train_task.py, which needs PyTorch). Each
// is trained for about `seconds`. names: empty means one light, two medium and one heavy network.
// Returns kInvalid if a name is not of the form NETWORK-bBATCH.
Result<std::vector<ProfiledWorkload>> TrainedWorkloads(std::span<const std::string> names,
                                                       const std::string& python,
                                                       const std::string& script, double seconds);

// The signature (estimate/signature.h) that the daemon would store if the user submitted the
// workload. Reads the model summary if `task` specifies one. folder: the working directory of
// workloads without `workdir`. Returns kInvalid if the submission is invalid.
Result<std::string> SignatureOf(const ProfiledWorkload& workload, const std::string& folder,
                                std::uint32_t uid);

// Reads the number of steps from a calibration's output. Returns kInvalid if the number is missing
// or invalid.
Result<double> StepsTold(std::string_view output);
// Returns a copy of the workload without its calibration. The number of steps is inserted into the
// command and set as the number of iterations.
ProfiledWorkload WithSteps(const ProfiledWorkload& workload, double steps);

}  // namespace carma::cli
