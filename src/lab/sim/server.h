// A simulated server with its core and the state of its tasks. Private to sim.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/scheduler/events.h"
#include "core/scheduler/waking_core.h"
#include "lab/sim/monitor.h"

namespace carma::sim {

struct Server {
  explicit Server(core::PolicyConfig policy) : core(std::move(policy)) {}

  // Samples that have not yet reached the scheduler.
  struct Samples {
    base::Time arrive{};
    std::vector<core::Event> events;
  };

  core::WakingCore core;
  std::uint64_t told = 0;  // number of event batches sent to the core
  Monitor::Queue queue;
  int launched = 0;    // number of tasks launched on this server
  bool whole = false;  // held by a task that uses several servers
  base::Time progress_shown{};
  base::Time next_tick{};  // only valid if a tick is set
  std::deque<Samples> on_the_way;
};
// This is a deque because a server's core cannot be moved.
using Servers = std::deque<Server>;

}  // namespace carma::sim
