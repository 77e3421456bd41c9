// Resource usage and behaviour of a finished run, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "core/values/ids.h"

namespace carma::task {

// The structural estimator's prediction for the run with the shipped constants, before any
// correction from this server's own runs.
struct FormulaSplit {
  std::int64_t context_mib = 0;  // the constant part: CUDA context and libraries
  std::int64_t rest_mib = 0;     // everything that comes from the model
  friend bool operator==(const FormulaSplit&, const FormulaSplit&) = default;
};

// Maximum number of stored observations, per signature and in total. The newest are kept.
inline constexpr int kRunsPerSignature = 16;
inline constexpr int kMaxObservations = 20'000;

struct Observation {
  core::TaskId task{};
  core::Time when{};  // when the run ended
  std::uint32_t uid = 0;
  std::string signature;  // equal for runs of the same training job (estimate/signature.h)
  std::string kin;        // equal for runs of one user's program with any arguments
  // Like `signature`, but ignores batch size and length. Empty if neither is known.
  std::string relation;
  std::optional<std::int64_t> batch, length;  // samples per GPU and step, tokens per sample
  std::string gpu_type;                       // the driver's name: "NVIDIA A100-SXM4-40GB"
  std::string method;                         // method of the run's estimate; empty: none
  std::optional<std::int64_t> predicted_mib;  // point value of that estimate
  std::optional<std::int64_t> promised_mib;
  std::int64_t measured_mib = 0;  // peak on one GPU
  // Peak of PyTorch's allocator, if the task reported it. Unlike measured_mib, it does not include
  // the allocator's cache.
  std::optional<std::int64_t> allocated_mib;
  bool ran_out = false;                 // ran out of GPU memory, so it needs more than measured
  std::optional<double> sm_active;      // while alone on its GPU, 0..1, from samples
  std::optional<double> cpus;           // busy hardware threads per GPU
  std::optional<double> others_share;   // core::Profile::others_share
  std::optional<core::Duration> alone;  // time of the whole run when alone on its GPUs, if known
  std::optional<FormulaSplit> formula;  // empty if no summary could be read
  friend bool operator==(const Observation&, const Observation&) = default;
};

}  // namespace carma::task
