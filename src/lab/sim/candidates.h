// The servers of a run, and which tasks each of them could ever run, for the cluster's queue.
// Private to sim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/policy/policy.h"
#include "core/scheduler/events.h"
#include "core/scheduler/waking_core.h"
#include "core/values/promise.h"
#include "core/values/task_request.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/monitor.h"
#include "lab/sim/node_counts.h"
#include "lab/sim/predictions.h"
#include "lab/trace/workloads.h"

namespace carma::sim {

// A simulated server with its core and the state of its tasks.
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
// A deque, because servers cannot be moved in memory.
using Servers = std::deque<Server>;

// The key of a group: its workload, CPU cores, GPU type, QOS, account, user (if relevant),
// predicted memory, activity, sensitivity, pressure, kernel size and run time.
using AlikeKey =
    std::tuple<const trace::Workload*, std::optional<double>, std::string, std::string, std::string,
               std::uint32_t, std::int64_t, double, double, double, double, std::int64_t>;

// Tasks with the same request and the same predictions. A server's answer for one of them is valid
// for all.
struct Alike {
  core::TaskRequest request;
  std::optional<core::Estimate> estimate;
  core::Profile profile;
  CountAsked asked;  // what Slurm allocates on each server
  // Whether an empty server could take the task; by kind of server.
  std::vector<std::optional<bool>> could_take;

  // A server's answer in AskedPlacing.
  struct Answer {
    std::uint64_t told = 0;       // event batches that the server had received when it answered
    std::optional<double> score;  // how well the task would fit; empty: it cannot start now
  };
  std::vector<Answer> answers;
  std::vector<std::optional<core::Need>> needs;  // by kind of server
  // AskedPlacing's epoch_ and touched_.size() at the last check that found no server for tasks of
  // this group.
  std::uint64_t none_epoch = 0;
  std::size_t none_touched = 0;
};

class Candidates {
 public:
  // All arguments must outlive this object.
  Candidates(const RunOptions& options, const Layout& layout, const Servers& servers,
             Predictions& predictions);

  std::shared_ptr<Alike> AlikeOf(const Job& job);
  // True if this server could take a task of the group when empty.
  bool CouldTake(Alike& alike, std::uint32_t server) const;
  bool AnyCould(Alike& alike, std::optional<std::uint32_t> except = {}) const;
  using IsFree = std::function<bool(std::uint32_t)>;
  // Returns as many free servers (`is_free`) of one kind as the task needs, or an empty list if
  // there are too few.
  std::vector<std::uint32_t> WholeServersFor(const Job& job, const IsFree& is_free) const;

 private:
  const RunOptions& options_;
  const Layout& layout_;
  const Servers& servers_;
  Predictions& predictions_;
  std::map<AlikeKey, std::shared_ptr<Alike>> alikes_;
};

}  // namespace carma::sim
