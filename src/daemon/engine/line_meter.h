// What kept the first task in line waiting, and for how long: rows for the books.
#pragma once

#include <map>
#include <vector>

#include "base/time.h"
#include "core/values/task.h"
#include "store/store.h"

namespace carma::daemon {

class LineMeter {
 public:
  // From now on the first of those that want GPUs waits for this; kNone: nobody waits.
  void See(core::ReasonCode reason, base::Time now);
  // Everything since the last call, a row for each reason.
  std::vector<store::LineWait> Close(base::Time now);

 private:
  core::ReasonCode reason_ = core::ReasonCode::kNone;
  base::Time seen_{};  // what was before is in waited_
  base::Time from_{};  // of the rows to come, if there are any
  std::map<core::ReasonCode, base::Duration> waited_;
};

}  // namespace carma::daemon
