// Checks running tasks after each round of readings. Reports idle holders, tasks that exceed their
// promise, and tasks running on GPUs that were not assigned to them, each only once per attempt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "config/settings.h"
#include "core/scheduler/events.h"
#include "core/values/ids.h"
#include "daemon/gpus/idle_holders.h"
#include "daemon/gpus/monitor.h"
#include "daemon/gpus/policy_violations.h"
#include "store/store.h"

namespace carma::daemon {

// The notice to administrators about an idle holder, as a single-line JSON object. action: what
// CARMA does about it.
std::string ToLine(const core::TaskIdle& idle, const store::StoredTask& stored, base::Time now,
                   core::IdleAction action);

class TaskWatch {
 public:
  // All arguments must outlive this object. Follow() must be called when settings change. tell:
  // sends the administrators a JSON object about an idle holder.
  using Tell = std::function<void(const std::string& message)>;
  TaskWatch(store::Store& store, base::Clock& clock, const config::Settings& settings, Tell tell);

  // Returns events for the core. running: the records of all running tasks. margin_mib: as in the
  // current PolicyConfig.
  std::vector<core::TaskIdle> Look(const std::vector<const core::TaskRecord*>& running,
                                   std::int64_t margin_mib, const Monitor& monitor);
  void Follow(const config::Settings& before);

 private:
  void FindPolicyViolations(const std::vector<const core::TaskRecord*>& running,
                            std::int64_t margin_mib, const Monitor& monitor);
  void TellIdleHolder(const core::TaskIdle& idle);

  store::Store& store_;
  base::Clock& clock_;
  const config::Settings& settings_;
  std::unique_ptr<IdleHolders> idle_holders_;  // null if idle holders are not watched
  FirstSightings over_promise_, wrong_device_;
  Tell tell_;
};

}  // namespace carma::daemon
