// Chooses servers as Slurm does: by counts, in queue order. If the head of the queue must wait,
// later tasks may start by backfill, which reserves resources for the head only. Private to sim.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "lab/sim/candidates.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/lines_above.h"
#include "lab/sim/node_counts.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

// Starts a task on these servers and removes it from the queue.
using PlaceTask = std::function<void(JobIndex, std::span<const std::uint32_t>)>;

class SlurmPlacing {
 public:
  // All arguments must outlive this object.
  SlurmPlacing(const RunOptions& options, const Layout& layout, const LinesAbove& lines,
               const Jobs& jobs, const Candidates& candidates);

  // Places tasks until the head of the queue has to wait.
  void PlaceInOrder(base::Time now, const PlaceTask& place);
  void Backfill(base::Time now, const PlaceTask& place);
  // Books the task on this server until its time limit and returns the GPUs that Slurm chooses.
  std::vector<std::uint32_t> Book(const Job& job, std::uint32_t server, base::Time now);
  void Release(const Job& job);
  bool Empty(std::uint32_t server) const { return counts_.Empty(server); }

 private:
  struct Kept {  // kept for the head of the queue
    base::Time from{};
    std::vector<std::uint32_t> nodes;
    CountAsked asked;
  };
  base::Duration LimitOf(const Job& job) const;  // the time limit that its user requested
  std::vector<std::uint32_t> NodesFor(const Job& job, base::Time now, const Kept* kept) const;
  bool MayPass(const Kept& kept, std::uint32_t node, const Job& job, base::Time now) const;
  std::optional<Kept> KeptFor(const Job& job, base::Time now) const;

  const RunOptions& options_;
  const Layout& layout_;
  const LinesAbove& lines_;
  const Jobs& jobs_;
  const Candidates& candidates_;
  NodeCounts counts_;
  // The number of the blocked task at the head of the queue, and the servers on which resources
  // have been freed since it was blocked.
  std::optional<std::uint64_t> blocked_;
  std::vector<std::uint32_t> freed_;
};

}  // namespace carma::sim
