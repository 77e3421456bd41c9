// Measures why and for how long the head of the queue waits, and makes rows for the store.
#pragma once

#include <map>
#include <vector>

#include "base/time.h"
#include "core/values/reason.h"
#include "store/store.h"

namespace carma::daemon {

class LineMeter {
 public:
  // Reports that from now on the head waits for this reason; kNone: no task waits.
  void See(core::ReasonCode reason, base::Time now);
  // The waiting time since the last call of Close, one row per reason.
  std::vector<store::LineWait> Close(base::Time now);

 private:
  core::ReasonCode reason_ = core::ReasonCode::kNone;
  base::Time seen_{};  // time before this is in waited_
  base::Time from_{};  // start of the next rows
  std::map<core::ReasonCode, base::Duration> waited_;
};

}  // namespace carma::daemon
