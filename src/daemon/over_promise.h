// Tasks that use more GPU memory than they were promised, told from what the monitor sees. Pure:
// values are handed in.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/task.h"

namespace carma::daemon {

class Monitor;

// How much more than its promise and the margin a task uses, on the GPU where that is most; 0: it
// does not, or was promised nothing.
std::int64_t OverPromiseMib(const core::TaskRecord& record, std::int64_t margin_mib,
                            const Monitor& monitor);

struct PromiseUse {
  core::TaskId id{};
  int attempt = 0;
  std::int64_t over_mib = 0;  // OverPromiseMib()
  friend bool operator==(const PromiseUse&, const PromiseUse&) = default;
};

class OverPromise {
 public:
  // One look at all running tasks. Returns those that are over their promise for the first time in
  // this attempt.
  std::vector<PromiseUse> Take(const std::vector<PromiseUse>& running);

 private:
  std::map<core::TaskId, int> told_;  // attempts of running tasks
};

}  // namespace carma::daemon
