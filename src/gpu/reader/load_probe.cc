#include "gpu/reader/load_probe.h"

#include <algorithm>
#include <utility>

#include "gpu/combined_probe.h"
#include "gpu/reader/guarded_probe.h"

namespace carma::gpu {
namespace {

// The shortest `dcgmi` period, because DCGM averages its counters over at least this time.
constexpr base::Duration kShortestDmonPeriod{100};

CombinedOptions Combine(const ProbeOptions& options) {
  CombinedOptions combined;
  combined.dcgm_for_all = options.source == ActivitySource::kDcgm;
  combined.dmon.period = std::max(options.period, kShortestDmonPeriod);
  combined.dmon.silence = std::max(combined.dmon.silence, 3 * combined.dmon.period);
  combined.first_answer = options.first_answer;
  return combined;
}

}  // namespace

LoadedProbe LoadProbe(const ProbeOptions& options) {
  std::unique_ptr<Probe> nvml =
      std::make_unique<GuardedProbe>(GuardOptions{.reader = {options.reader, options.nvml_library},
                                                  .patience = options.patience,
                                                  .first_pause = 3 * options.patience});
  LoadedProbe loaded;
  if (options.source != ActivitySource::kNvml) {
    auto combined = std::make_unique<CombinedProbe>(std::move(nvml), Combine(options));
    loaded.dcgm_trouble = [asked = combined.get()] { return asked->DcgmTrouble(); };
    nvml = std::move(combined);
  }
  loaded.probe = std::make_unique<SteadyProbe>(std::move(nvml));
  return loaded;
}

}  // namespace carma::gpu
