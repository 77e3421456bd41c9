// The scheduler together with its next wake-up time, for simulators, which advance the clock
// themselves.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "core/scheduler/scheduler.h"

namespace carma::core {

class WakingCore {
 public:
  explicit WakingCore(PolicyConfig policy) : scheduler_(std::move(policy)) {}

  // Returns the core's actions and records the time of its WakeAt.
  std::vector<Action> Handle(Time now, const std::vector<Event>& events) {
    if (wake_ && *wake_ <= now) wake_.reset();
    std::vector<Action> actions = scheduler_.HandleAll(now, events);
    for (const Action& action : actions) {
      if (const auto* wake = std::get_if<WakeAt>(&action)) wake_ = wake->when;
    }
    return actions;
  }
  // When the core next needs a WakeUp. Empty if it needs none before the next event.
  const std::optional<Time>& wake() const { return wake_; }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  Scheduler scheduler_;
  std::optional<Time> wake_;
};

}  // namespace carma::core
