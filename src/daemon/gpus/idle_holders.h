// Finds tasks that hold GPUs without using them, based on the monitor's values. Pure: times and
// values are passed in.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/policy/policy.h"
#include "core/scheduler/events.h"
#include "core/values/ids.h"

namespace carma::daemon {

class Monitor;

std::string_view IdleActionName(core::IdleAction action);  // Returns "tell", "share" or "end".

// A task's activity according to one reading of its GPUs.
enum class HolderSight {
  kUnknown,  // the GPU was not read, or the reading is inconclusive
  kIdle,
  kBusy,
};

struct Holder {
  core::TaskId id{};
  int attempt = 0;
  std::optional<base::Time> idle_since;  // as stored in the task's attempt
  // kBusy if the task is busy on at least one of its GPUs, kIdle if it is idle on all of them.
  HolderSight sight = HolderSight::kUnknown;
};

// A task is idle on a GPU if its processes have no memory there, if they ran no kernels, or if the
// GPU's SM activity (or its utilisation, if SM activity is unknown) is at most `below`. A task with
// processes on GPUs that were not assigned to it is never idle.
Holder LookAtHolder(const core::TaskRecord& record, const Monitor& monitor, double below);

class IdleHolders {
 public:
  // after: how long a task must be idle to become an idle holder. gap: the time between two
  // readings counts as unknown if it is longer than this.
  IdleHolders(base::Duration after, base::Duration gap) : after_(after), gap_(gap) {}

  // Processes one reading of all running tasks. Returns TaskIdle for each task that has just become
  // an idle holder or ceased to be one. Time without readings never counts as idle. A task remains
  // an idle holder until a reading shows that it is busy.
  std::vector<core::TaskIdle> Take(base::Time now, const std::vector<Holder>& holders);

 private:
  struct Watched {
    int attempt = 0;
    base::Time looked{};
    std::optional<base::Time> idle_since;  // start of the current uninterrupted idle time
    bool told = false;
  };
  std::optional<core::TaskIdle> TakeOne(base::Time now, const Holder& holder, Watched& watched);

  base::Duration after_;
  base::Duration gap_;
  std::map<core::TaskId, Watched> watched_;
};

}  // namespace carma::daemon
