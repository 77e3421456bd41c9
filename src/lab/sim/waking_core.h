// The core and the moment at which it wants to be woken: what every shell that moves the clock
// itself needs of it.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "core/scheduler/scheduler.h"

namespace carma::sim {

class WakingCore {
 public:
  explicit WakingCore(core::PolicyConfig policy) : scheduler_(std::move(policy)) {}

  // The core's answers; its WakeAt is noted too.
  std::vector<core::Action> Handle(core::Time now, const std::vector<core::Event>& events) {
    if (wake_ && *wake_ <= now) wake_.reset();
    std::vector<core::Action> actions = scheduler_.HandleAll(now, events);
    for (const core::Action& action : actions) {
      if (const auto* wake = std::get_if<core::WakeAt>(&action)) wake_ = wake->when;
    }
    return actions;
  }
  // When it wants core::WakeUp; empty: not by itself.
  const std::optional<core::Time>& wake() const { return wake_; }
  const core::Scheduler& scheduler() const { return scheduler_; }

 private:
  core::Scheduler scheduler_;
  std::optional<core::Time> wake_;
};

}  // namespace carma::sim
