// Tasks that hold GPUs and do not use them, told from what the monitor sees. Pure: times and values
// are handed in.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/policy/policy.h"
#include "core/scheduler/events.h"
#include "core/values/task.h"

namespace carma::daemon {

class Monitor;

std::string_view IdleActionName(core::IdleAction action);  // "tell", "share", "end"

// What a look at one of a task's GPUs said about the task.
enum class HolderSight {
  kUnknown,  // the GPU was not read, or what was read tells nothing
  kIdle,
  kBusy,
};

struct Holder {
  core::TaskId id{};
  int attempt = 0;
  std::optional<base::Time> idle_since;  // as the books have it
  // Of all its GPUs together: busy on one is busy, idle takes all of them.
  HolderSight sight = HolderSight::kUnknown;
};

// Idle on a GPU is who has no process there that holds memory, or whose processes ran no kernel, or
// where the SM activity (the utilisation where that is not counted) is at most `below`. Who has
// processes on GPUs that it was not given is not idle, whatever it does there.
Holder LookAtHolder(const core::TaskRecord& record, const Monitor& monitor, double below);

class IdleHolders {
 public:
  // after: idle for so long makes an idle holder. gap: with more time than this between two looks
  // nobody knows what was in between.
  IdleHolders(base::Duration after, base::Duration gap) : after_(after), gap_(gap) {}

  // One look at all running tasks. Returns TaskIdle where a task has become an idle holder, or is
  // one no more. Time that was not watched never counts as idle; an idle holder stays one until it
  // is seen busy.
  std::vector<core::TaskIdle> Take(base::Time now, const std::vector<Holder>& holders);

 private:
  struct Watched {
    int attempt = 0;
    base::Time looked{};
    std::optional<base::Time> idle_since;  // without a gap
    bool told = false;
  };
  std::optional<core::TaskIdle> TakeOne(base::Time now, const Holder& holder, Watched& watched);

  base::Duration after_;
  base::Duration gap_;
  std::map<core::TaskId, Watched> watched_;
};

}  // namespace carma::daemon
