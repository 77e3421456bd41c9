#include "daemon/engine/line_meter.h"

#include <utility>

namespace carma::daemon {

void LineMeter::See(core::ReasonCode reason, base::Time now) {
  if (reason_ != core::ReasonCode::kNone) {
    if (waited_.empty()) from_ = seen_;
    waited_[reason_] += now - seen_;
  }
  reason_ = reason;
  seen_ = now;
}

std::vector<store::LineWait> LineMeter::Close(base::Time now) {
  See(reason_, now);
  std::vector<store::LineWait> rows;
  for (const auto& [reason, waited] : std::exchange(waited_, {})) {
    if (waited > base::Duration(0)) rows.push_back({from_, now, reason, waited});
  }
  return rows;
}

}  // namespace carma::daemon
