#include "core/books/recovery_hold.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace carma::core {

bool RecoveryHold::Keep(const PolicyConfig& config, const GpuLinks& links, const Need& need,
                        std::span<const GpuView> views) {
  // The margin and the floor are waived on an empty GPU.
  Need alone = need;
  alone.idle_gpu = true;
  std::vector<const GpuView*> open;
  for (const GpuView& view : views) {
    if (!view.healthy || view.drained) continue;
    const GpuView emptied{.index = view.index,
                          .total_mib = view.total_mib,
                          .free_mib = view.total_mib,
                          .mig = view.mig,
                          .compute = view.compute,
                          .pace = view.pace,
                          .at = view.at,
                          .booked = view.booked};
    if (FitOf(config, alone, emptied) == Fit::kFits) open.push_back(&view);
  }
  std::ranges::sort(open, {}, [](const GpuView* view) {
    return std::tuple(view->exclusive_task, -view->free_mib, view->tasks, view->index);
  });
  std::vector<GpuLinks::Candidate> candidates;
  for (const GpuView* view : open)
    candidates.push_back({view->index, -static_cast<double>(candidates.size())});
  std::vector<GpuIndex> chosen = links.ChooseFor(need, std::move(candidates));
  if (chosen.empty()) return false;
  task_ = need.task;
  gpus_ = std::move(chosen);
  return true;
}

}  // namespace carma::core
