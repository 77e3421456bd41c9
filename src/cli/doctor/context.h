// What a CUDA context takes, GPU type by GPU type, beside what estimates count for a process.
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

// What the structural estimator counts for a process of PyTorch 2 before its first tensor: CUDA
// context and libraries, whose kernels are loaded when they are used.
struct AssumedContext {
  std::int64_t mib = 0;
  std::string taught_by;  // the GPU type whose finished tasks taught it; empty: as shipped
  std::int64_t tasks = 0;
  std::string reason;  // of the server: which constant is in force and why; empty: not known
  bool learns = true;  // estimate.history
};

struct ContextFacts {
  std::string gpu_type;
  std::size_t gpu = 0;  // where it was or would have been measured
  std::expected<gpu::ContextCost, gpu::ContextTrouble> cost;
  std::string not_measured;  // why nothing was tried; empty: `cost` says what came of it
  AssumedContext assumed;
};

// The GPU of each type on which a context may be made now, or the first of the type with why not.
struct ContextCandidate {
  std::size_t gpu = 0;
  std::string obstacle;  // for the middle of a sentence; empty: none
};
std::vector<ContextCandidate> ContextCandidates(const std::vector<GpuFacts>& gpus);

Finding CheckContext(const ContextFacts& facts);

}  // namespace carma::cli
