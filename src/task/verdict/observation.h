// What one finished run taught about what it needs and does. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "core/values/task.h"

namespace carma::task {

// What the formula of the structural estimator said about the run, with the shipped constants.
struct FormulaSplit {
  std::int64_t context_mib = 0;  // the constant part: CUDA context and libraries
  std::int64_t rest_mib = 0;     // everything that comes from the model
  friend bool operator==(const FormulaSplit&, const FormulaSplit&) = default;
};

// So many are kept, the newest: of one signature, and altogether.
inline constexpr int kRunsPerSignature = 16;
inline constexpr int kMaxObservations = 20'000;

struct Observation {
  core::TaskId task{};
  core::Time when{};  // its end
  std::uint32_t uid = 0;
  std::string signature;  // of the same thing (estimate/signature.h)
  std::string kin;        // of the same user's same program, whatever it was told to do
  // Of the same thing with another batch or other lengths; empty: it tells neither.
  std::string relation;
  std::optional<std::int64_t> batch, length;  // samples per GPU and step, tokens of a sample
  std::string gpu_type;                       // as the driver names it: "NVIDIA A100-SXM4-40GB"
  std::string method;  // of the estimate it was promised by; empty: there was none
  std::optional<std::int64_t> predicted_mib;  // that estimate's point
  std::optional<std::int64_t> promised_mib;
  std::int64_t measured_mib = 0;  // peak on one GPU
  // The most that PyTorch's allocator had given out, where the task told; what it kept besides is
  // in measured_mib.
  std::optional<std::int64_t> allocated_mib;
  bool ran_out = false;                 // out of GPU memory: it needs more than what was measured
  std::optional<double> sm_active;      // alone on its GPU, 0..1, as the samples told
  std::optional<core::Duration> alone;  // of a whole run: with GPUs to itself, as far as is known
  std::optional<FormulaSplit> formula;  // empty: no readable summary
  friend bool operator==(const Observation&, const Observation&) = default;
};

}  // namespace carma::task
