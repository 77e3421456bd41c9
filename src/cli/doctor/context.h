// Memory of a CUDA context by GPU type, compared with what estimates assume for a process.
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

// What the structural estimator assumes for a process of PyTorch 2 before its first tensor: CUDA
// context and libraries, with kernels loaded on first use.
struct AssumedContext {
  std::int64_t mib = 0;
  std::string taught_by;  // GPU type that it was learned on; empty: as shipped
  std::int64_t tasks = 0;
  std::string reason;  // why the server uses this constant; empty: unknown
  bool learns = true;  // estimate.history
};

struct ContextFacts {
  std::string gpu_type;
  std::size_t gpu = 0;  // measured here, or would have been
  std::expected<gpu::ContextCost, gpu::ContextTrouble> cost;
  std::string not_measured;  // why it was not measured; empty: see `cost`
  AssumedContext assumed;
};

// For each type, a GPU on which a context may be created now, or its first GPU with the obstacle.
// While any GPU does not answer, none is measured: CUDA initialises all of them, so a healthy GPU
// would get the blame.
struct ContextCandidate {
  std::size_t gpu = 0;
  std::string obstacle;  // as part of a sentence; empty: none
};
std::vector<ContextCandidate> ContextCandidates(const std::vector<GpuFacts>& gpus);

Finding CheckContext(const ContextFacts& facts);

}  // namespace carma::cli
