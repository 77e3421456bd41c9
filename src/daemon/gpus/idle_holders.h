// Uses the monitor's values to find tasks that hold GPUs without using them. Pure: times and values
// are passed in.
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

// The activity of a task according to one reading of its GPUs.
enum class HolderSight {
  kUnknown,  // the GPU was not read, or the reading does not show it
  kIdle,
  kBusy,
};

struct Holder {
  core::TaskId id{};
  int attempt = 0;
  std::optional<base::Time> idle_since;  // as stored in the task's attempt
  // The verdict for all GPUs of the task together: kBusy if it is busy on any GPU, kIdle if it is
  // idle on all.
  HolderSight sight = HolderSight::kUnknown;
};

// A task is idle on a GPU if it has no process with memory on it, if its processes ran no kernel,
// or if the GPU's SM activity (else its utilisation) is at most `below`. A task with processes on
// GPUs that it was not given is never idle.
Holder LookAtHolder(const core::TaskRecord& record, const Monitor& monitor, double below);

class IdleHolders {
 public:
  // after: a task that is idle for this long becomes an idle holder. gap: if two readings are
  // further apart than this, the time between them counts as unknown.
  IdleHolders(base::Duration after, base::Duration gap) : after_(after), gap_(gap) {}

  // Processes one reading of all running tasks. Returns TaskIdle for each task that has become an
  // idle holder or no longer is one. Unwatched time never counts as idle. An idle holder remains
  // one until a reading shows it busy.
  std::vector<core::TaskIdle> Take(base::Time now, const std::vector<Holder>& holders);

 private:
  struct Watched {
    int attempt = 0;
    base::Time looked{};
    std::optional<base::Time> idle_since;  // idle without a gap since then
    bool told = false;
  };
  std::optional<core::TaskIdle> TakeOne(base::Time now, const Holder& holder, Watched& watched);

  base::Duration after_;
  base::Duration gap_;
  std::map<core::TaskId, Watched> watched_;
};

}  // namespace carma::daemon
