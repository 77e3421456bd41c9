#include "core/books/recovery_hold.h"

#include <algorithm>
#include <tuple>

namespace carma::core {

bool RecoveryHold::Keep(const PolicyConfig& config, const Need& need,
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
  const auto wanted = static_cast<std::size_t>(need.gpus);
  if (open.size() < wanted) return false;
  std::ranges::sort(open, {}, [](const GpuView* view) {
    return std::tuple(view->exclusive_task, -view->free_mib, view->tasks, view->index);
  });
  task_ = need.task;
  gpus_.clear();
  for (std::size_t i = 0; i < wanted; ++i) gpus_.push_back(open[i]->index);
  return true;
}

}  // namespace carma::core
