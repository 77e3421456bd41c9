// The core and the moment at which it wants to be woken: what every shell that moves the clock
// itself needs of it.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "core/scheduler/scheduler.h"

namespace carma::core {

class WakingCore {
 public:
  explicit WakingCore(PolicyConfig policy) : scheduler_(std::move(policy)) {}

  // The core's answers; its WakeAt is noted too.
  std::vector<Action> Handle(Time now, const std::vector<Event>& events) {
    if (wake_ && *wake_ <= now) wake_.reset();
    std::vector<Action> actions = scheduler_.HandleAll(now, events);
    for (const Action& action : actions) {
      if (const auto* wake = std::get_if<WakeAt>(&action)) wake_ = wake->when;
    }
    return actions;
  }
  // When it wants WakeUp; empty: not by itself.
  const std::optional<Time>& wake() const { return wake_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  Scheduler scheduler_;
  std::optional<Time> wake_;
};

}  // namespace carma::core
