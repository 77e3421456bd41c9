#include "daemon/gpus/policy_violations.h"

#include <algorithm>
#include <utility>

#include "daemon/gpus/monitor.h"

namespace carma::daemon {

std::int64_t OverPromiseMib(const core::TaskRecord& record, std::int64_t margin_mib,
                            const Monitor& monitor) {
  std::int64_t over_mib = 0;
  for (const core::Placement& at : record.attempt->placement) {
    if (at.claim_mib == 0) continue;
    over_mib =
        std::max(over_mib, monitor.ObservedMib(at.gpu, record.id) - at.claim_mib - margin_mib);
  }
  return over_mib;
}

std::vector<core::GpuIndex> WrongGpus(const core::TaskRecord& record, const Monitor& monitor) {
  std::vector<core::GpuIndex> wrong;
  for (std::size_t i = 0; i < monitor.devices().size(); ++i) {
    const auto gpu = static_cast<core::GpuIndex>(i);
    const bool given = std::ranges::any_of(
        record.attempt->placement, [gpu](const core::Placement& at) { return at.gpu == gpu; });
    if (!given && monitor.Fresh(gpu) && monitor.Use(gpu).tasks.contains(record.id))
      wrong.push_back(gpu);
  }
  return wrong;
}

std::set<core::TaskId> FirstSightings::Take(const std::vector<Sighting>& running) {
  std::set<core::TaskId> news;
  std::map<core::TaskId, int> told;
  for (const Sighting& each : running) {
    const auto before = told_.find(each.id);
    const bool known = before != told_.end() && before->second == each.attempt;
    if (!known && each.caught) news.insert(each.id);
    if (known || each.caught) told[each.id] = each.attempt;
  }
  told_ = std::move(told);
  return news;
}

}  // namespace carma::daemon
