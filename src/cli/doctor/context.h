// For each GPU type, compares the measured size of a CUDA context with the memory per process that
// the estimates assume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "cli/doctor/doctor.h"
#include "gpu/cuda_context.h"
#include "gpu/probe.h"

namespace carma::cli {

// The memory that a PyTorch 2 process uses before its first tensor, according to the structural
// estimator. This covers the CUDA context and libraries that load their kernels on first use.
struct AssumedContext {
  std::int64_t mib = 0;
  std::string taught_by;  // GPU type that it was learned on; empty for the built-in value
  std::int64_t tasks = 0;
  std::string reason;  // why the server uses this constant; empty if unknown
  bool learns = true;  // estimate.history
};

struct ContextFacts {
  std::string gpu_type;
  std::size_t gpu = 0;  // index of the GPU that was measured, or would have been
  std::expected<gpu::ContextCost, gpu::ContextTrouble> cost;
  std::string not_measured;  // why it was not measured; if empty, see `cost`
  AssumedContext assumed;
};

// The GPU on which the context for one GPU type is measured. If none of this type can be used now,
// `gpu` is the first and `obstacle` is the reason. A GPU that does not respond is an obstacle for
// all types: CUDA initialises every GPU, so measuring on a healthy one could hang too.
struct ContextCandidate {
  std::size_t gpu = 0;
  std::string obstacle;  // phrased as part of a sentence; empty if there is none
};
std::vector<ContextCandidate> ContextCandidates(const std::vector<GpuFacts>& gpus);

Finding CheckContext(const ContextFacts& facts);

}  // namespace carma::cli
