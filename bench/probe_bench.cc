// What one round of readings costs: the probe and the driver's library below it, without a daemon.
// CARMA_BENCH_NVML names the library, else the system's own is asked.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/clock.h"
#include "gpu/nvml_probe.h"

namespace carma::gpu {
namespace {

void BM_Round(benchmark::State& state) {
  const char* library = std::getenv("CARMA_BENCH_NVML");
  auto probe = LoadNvmlProbe(library != nullptr ? library : kNvmlLibrary);
  if (!probe) return state.SkipWithError(probe.error().message.c_str());
  const auto devices = (*probe)->Devices();
  if (!devices) return state.SkipWithError(devices.error().message.c_str());
  base::SystemClock clock;
  for (auto _ : state) {
    for (std::size_t i = 0; i < devices->size(); ++i)
      benchmark::DoNotOptimize((*probe)->Read(i, clock.Now()));
  }
  state.counters["gpus"] = static_cast<double>(devices->size());
}
BENCHMARK(BM_Round)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace carma::gpu
