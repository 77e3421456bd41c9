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

  // Samples on their way to the core.
  struct Samples {
    base::Time arrive{};
    std::vector<core::Event> events;
  };

  core::WakingCore core;
  std::uint64_t told = 0;  // number of batches of events that it was sent
  Monitor::Queue queue;
  int launched = 0;    // tasks
  bool whole = false;  // held by a task of several servers
  base::Time progress_shown{};
  base::Time next_tick{};  // where one is set
  std::deque<Samples> on_the_way;
};
// A deque, because a server's core cannot be moved.
using Servers = std::deque<Server>;

}  // namespace carma::sim
