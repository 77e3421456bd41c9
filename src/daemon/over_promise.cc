#include "daemon/over_promise.h"

#include <algorithm>
#include <utility>

#include "daemon/monitor.h"

namespace carma::daemon {

std::int64_t OverPromiseMib(const core::TaskRecord& record, std::int64_t margin_mib,
                            const Monitor& monitor) {
  std::int64_t over_mib = 0;
  for (const core::Placement& at : record.attempt.placement) {
    if (at.claim_mib == 0) continue;
    over_mib =
        std::max(over_mib, monitor.ObservedMib(at.gpu, record.id) - at.claim_mib - margin_mib);
  }
  return over_mib;
}

std::vector<PromiseUse> OverPromise::Take(const std::vector<PromiseUse>& running) {
  std::vector<PromiseUse> news;
  std::map<core::TaskId, int> told;
  for (const PromiseUse& each : running) {
    const auto before = told_.find(each.id);
    const bool known = before != told_.end() && before->second == each.attempt;
    if (!known && each.over_mib > 0) news.push_back(each);
    if (known || each.over_mib > 0) told[each.id] = each.attempt;
  }
  told_ = std::move(told);
  return news;
}

}  // namespace carma::daemon
