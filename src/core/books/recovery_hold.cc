#include "core/books/recovery_hold.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace carma::core {

namespace {

// The GPU as if none of CARMA's tasks and no foreign process were on it.
GpuView Emptied(const GpuView& gpu) {
  return {.index = gpu.index,
          .total_mib = gpu.total_mib,
          .free_mib = gpu.total_mib,
          .mig = gpu.mig,
          .compute = gpu.compute,
          .pace = gpu.pace,
          .at = gpu.at,
          .booked = gpu.booked};
}

}  // namespace

bool BlockedByForeign(const PolicyConfig& config, const Need& need, const GpuView& gpu) {
  if (gpu.foreign_processes == 0) return false;
  GpuView without = Emptied(gpu);
  without.foreign_processes = gpu.foreign_processes;
  without.foreign_mib = gpu.foreign_mib;
  without.free_mib = std::max<std::int64_t>(0, gpu.total_mib - gpu.foreign_mib);
  return FitOf(config, need, without) != Fit::kFits;
}

bool RecoveryHold::Keep(const PolicyConfig& config, const GpuLinks& links, const Need& need,
                        std::span<const GpuView> views) {
  // The margin and the floor are waived on an empty GPU.
  Need alone = need;
  alone.idle_gpu = true;
  std::vector<std::pair<bool, const GpuView*>> open;  // first: BlockedByForeign
  for (const GpuView& view : views) {
    if (!view.healthy || view.drained) continue;
    if (FitOf(config, alone, Emptied(view)) == Fit::kFits)
      open.emplace_back(BlockedByForeign(config, need, view), &view);
  }
  std::ranges::sort(open, {}, [](const auto& each) {
    const auto& [blocked, view] = each;
    return std::tuple(blocked, view->exclusive_task, -view->free_mib, view->tasks, view->index);
  });
  std::vector<GpuLinks::Candidate> candidates;
  for (const auto& [blocked, view] : open)
    candidates.push_back({view->index, -static_cast<double>(candidates.size())});
  std::vector<GpuIndex> chosen = links.ChooseFor(need, std::move(candidates));
  if (chosen.empty()) return false;
  task_ = need.task;
  gpus_ = std::move(chosen);
  return true;
}

}  // namespace carma::core
