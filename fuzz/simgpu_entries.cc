#include "base/result.h"
#include "entries.h"
#include "lab/sim/gpu_types.h"
#include "lab/simgpu/mps_wire.h"

namespace carma::fuzz {

void FuzzShape(std::string_view bytes) {
  const auto gpus = sim::ParseDividedShape(bytes);
  CheckError(gpus);
  if (!gpus) return;
  CARMA_CHECK(!gpus->empty() && gpus->size() <= sim::kMaxServerGpus,
              "the number of GPUs is within a server's limit");
  for (const sim::ShapedGpu& gpu : *gpus) {
    int compute = 0, memory = 0;
    for (const sim::MigSlices& slices : gpu.mig.value_or(std::vector<sim::MigSlices>())) {
      compute += slices.compute;
      memory += slices.memory;
    }
    CARMA_CHECK(compute <= sim::kMigComputeSlices && memory <= sim::kMigMemorySlices,
                "instances fit on their GPU");
  }
}

void FuzzSimMps(std::string_view bytes) {
  CheckError(simgpu::ParseMpsPercentage(bytes));
  const auto limits = simgpu::ParseMpsMemoryLimits(bytes);
  CheckError(limits);
  if (limits) {
    const auto again = simgpu::ParseMpsMemoryLimits(simgpu::FormatMpsMemoryLimits(*limits));
    CARMA_CHECK(again && *again == *limits, "limits survive a round trip");
  }
  const auto welcome = simgpu::ParseMpsWelcome(bytes);
  CheckError(welcome);
  if (welcome) CheckError(simgpu::ParseMpsWelcome(simgpu::FormatMpsWelcome(*welcome)));
}

}  // namespace carma::fuzz
