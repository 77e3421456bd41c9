#include "gpu/load_probe.h"

#include <algorithm>
#include <utility>

#include "gpu/combined_probe.h"
#include "gpu/nvml_probe.h"

namespace carma::gpu {
namespace {

// DCGM's counters are means over at least this.
constexpr base::Duration kShortestDmonPeriod{100};

}  // namespace

base::Result<LoadedProbe> LoadProbe(const ProbeOptions& options) {
  base::Result<std::unique_ptr<Probe>> nvml = LoadNvmlProbe(options.nvml_library);
  if (!nvml) return std::unexpected(nvml.error());
  if (options.source == ActivitySource::kNvml) {
    return LoadedProbe{std::make_unique<SteadyProbe>(std::move(*nvml)), {}};
  }
  CombinedOptions combined;
  if (options.source == ActivitySource::kDcgm) combined.prefer = CombinedOptions::Prefer::kDcgm;
  combined.dmon.period = std::max(options.period, kShortestDmonPeriod);
  combined.dmon.silence = std::max(combined.dmon.silence, 3 * combined.dmon.period);
  combined.first_answer = options.first_answer;
  auto probe = std::make_unique<CombinedProbe>(std::move(*nvml), combined);
  CombinedProbe* const asked = probe.get();
  return LoadedProbe{std::make_unique<SteadyProbe>(std::move(probe)),
                     [asked] { return asked->DcgmTrouble(); }};
}

}  // namespace carma::gpu
