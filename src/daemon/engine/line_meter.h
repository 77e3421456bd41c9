// Measures how long the head of the queue waits for each reason. The store keeps the results.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/values/reason.h"
#include "store/store.h"

namespace carma::daemon {

class LineMeter {
 public:
  // Records that the head of the queue waits for this reason from `now` on. reason: kNone if no
  // task is waiting.
  void See(core::ReasonCode reason, base::Time now) {
    if (reason_ != core::ReasonCode::kNone) {
      if (waited_.empty()) from_ = seen_;
      waited_[reason_] += now - seen_;
    }
    reason_ = reason;
    seen_ = now;
  }
  // The waiting times since the last call to Close(), one row for each reason.
  std::vector<store::LineWait> Close(base::Time now) {
    See(reason_, now);
    std::vector<store::LineWait> rows;
    for (const auto& [reason, waited] : std::exchange(waited_, {})) {
      if (waited > base::Duration(0)) rows.push_back({from_, now, reason, waited});
    }
    return rows;
  }

 private:
  core::ReasonCode reason_ = core::ReasonCode::kNone;
  base::Time seen_{};  // waited_ includes all time before this
  base::Time from_{};  // start of the next rows
  std::map<core::ReasonCode, base::Duration> waited_;
};

}  // namespace carma::daemon
