// The first-in-first-out queue that feeds several servers (Placing::kQueue). Its first task goes to
// a server with an empty main queue: the one with the most idle GPUs, then the fewest tasks, then
// the lowest number. The server's own scheduler then decides which GPU the task gets. So a server
// never hoards tasks that another could start, and only one scheduler considers each task. Private
// to sim.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/machines.h"
#include "lab/sim/predictions.h"
#include "lab/sim/server.h"

namespace carma::sim {

class IdleFirst {
 public:
  struct Placed {
    JobIndex job = 0;
    std::uint32_t server = 0;
  };

  // All arguments must outlive this object.
  IdleFirst(const RunOptions& options, const Layout& layout, const Servers& servers,
            const Machines& machines, const Jobs& jobs, Predictions& predictions);

  void Add(std::span<const JobIndex> jobs);
  // Call this when this server's tasks have changed.
  void Changed(std::uint32_t server);
  // Removes the first task and returns it with its server; empty if it must wait or the queue is
  // empty.
  std::optional<Placed> Next();

 private:
  // Best first: most idle GPUs, fewest tasks, lowest number.
  using Key = std::tuple<int, int, std::uint32_t>;
  std::optional<std::uint32_t> ServerFor(const Job& job);

  const RunOptions& options_;
  const Layout& layout_;
  const Servers& servers_;
  const Machines& machines_;
  const Jobs& jobs_;
  Predictions& predictions_;
  std::deque<JobIndex> queue_;
  std::set<Key> open_;                      // servers whose main queue is empty
  std::vector<std::optional<Key>> key_of_;  // by server: its key in open_, or empty
};

}  // namespace carma::sim
