// How the queue that feeds several servers chooses them (Above::placing). Private to sim.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "core/policy/policy.h"
#include "lab/sim/candidates.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/lines_above.h"
#include "lab/sim/machines.h"
#include "lab/sim/node_counts.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

// Placing::kQueue: first in, first out. Among the servers whose main queue is empty, the task goes
// to the one with the most idle GPUs, then the fewest tasks, then the lowest number. That server's
// scheduler chooses the GPU. Servers never hoard tasks that another server could start.
class IdleFirst {
 public:
  struct Placed {
    JobIndex job = 0;
    std::uint32_t server = 0;
  };

  // The servers must already exist, and all arguments must outlive this object.
  IdleFirst(const Servers& servers, const Machines& machines, const Jobs& jobs,
            Candidates& candidates);

  void Add(std::span<const JobIndex> jobs);
  // Call this when this server's tasks have changed.
  void Changed(std::uint32_t server);
  // Removes the head of the queue and chooses a server for it. Returns nothing if the queue is
  // empty or its head has to wait.
  std::optional<Placed> Next();

 private:
  // The best server sorts first: most idle GPUs, then fewest tasks, then lowest number.
  using Key = std::tuple<int, int, std::uint32_t>;

  const Servers& servers_;
  const Machines& machines_;
  const Jobs& jobs_;
  Candidates& candidates_;
  std::deque<JobIndex> queue_;
  std::set<Key> open_;                      // servers whose main queue is empty
  std::vector<std::optional<Key>> key_of_;  // by server: its key in open_, or empty
};

// Starts a task on these servers and removes it from the queue.
using PlaceTask = std::function<void(JobIndex, std::span<const std::uint32_t>)>;

// Placing::kSlurm: chooses servers as Slurm does, by counting what is booked on each of them. Tasks
// start in queue order. While the head of the queue waits, backfill can start later tasks.
// Resources are reserved for the head only.
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

// Placing::kAsked: each server reports whether its guards and mapper would start the task now, and
// how well the task would fit. A server with a waiting task does not accept another one, so a
// placed task starts immediately unless something unforeseen happens.
class AskedPlacing {
 public:
  // The servers must already exist, and all arguments must outlive this object.
  AskedPlacing(const RunOptions& options, const Layout& layout, const Servers& servers,
               const LinesAbove& lines, const Jobs& jobs, const Candidates& candidates);

  // Call this when this server's answers may have changed.
  void Changed(std::uint32_t server) { touched_.push_back(server); }
  // Places tasks until no server would start another. Call it only if no reports are due.
  void Place(base::Time now, const PlaceTask& place);
  // Call this after servers have been assigned to the task.
  void Placed(const Job& job);
  // When the next report of samples is due. The servers' decisions need no report; they are visible
  // immediately.
  base::Time ReportsBy() const { return reported_ + options_.above.report_every; }
  void Reported(base::Time now) { reported_ = now; }

 private:
  struct Seen {  // a server's GPUs as last seen
    std::vector<core::GpuView> views;
    std::uint64_t told = 0;  // Server::told at that time
  };

  std::vector<std::uint32_t> NodesFor(const Job& job, base::Time now);
  const std::optional<double>& AnswerOf(Alike& alike, std::uint32_t server, base::Time now);
  std::optional<double> Ask(Alike& alike, std::uint32_t server, base::Time now);
  bool IsKeptFrom(const Job& job, std::uint32_t server) const;
  void KeepServers(std::span<const LinesAbove::Waiting> looked_at, base::Time now);

  const RunOptions& options_;
  const Layout& layout_;
  const Servers& servers_;
  const LinesAbove& lines_;
  const Jobs& jobs_;
  const Candidates& candidates_;
  std::unique_ptr<core::Mapper> mapper_;  // its score ranks the answers
  std::vector<Seen> seen_;                // one per server
  base::Time reported_{};
  // Servers whose answers may have changed since the epoch began, oldest change first. When the
  // list becomes too long, a new epoch begins: the list is cleared, and every server is asked
  // again.
  std::vector<std::uint32_t> touched_;
  std::uint64_t epoch_ = 1;
  // The task for which servers are kept free, because other tasks have been starting ahead of it
  // for too long.
  std::optional<std::uint64_t> kept_for_;
  std::vector<std::uint32_t> kept_;
};

}  // namespace carma::sim
