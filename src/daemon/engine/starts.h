// Starting and stopping of attempts: orders for the launcher, and how a task shares its GPUs
// (docs/server/collocation.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/scheduler/scheduler.h"
#include "daemon/engine/engine_options.h"
#include "daemon/gpus/attribution.h"
#include "store/store.h"
#include "task/process/group_limiter.h"
#include "task/shim/launcher.h"

namespace carma::daemon {

class Starts {
 public:
  // All arguments must outlive it. Only reads the core, and posts SharingChosen for MPS clients and
  // LaunchFailed for attempts that never reached the launcher.
  Starts(const EngineOptions& options, store::Store& store, task::Launcher& launcher,
         const core::Scheduler& core, Attribution& attribution, PostEvent post);

  // Registers an attempt of an earlier run. Comes before the core gets it, so that a repeated stop
  // finds its shim. gid: of the task's owner.
  void Adopt(const core::TaskRecord& record, std::uint32_t gid);
  // Called once at the start: removes what ended attempts have left behind. kept: whether an
  // attempt was adopted.
  void Sweep(const std::function<bool(core::TaskId, int attempt)>& kept) const;
  // How an attempt without MPS server shares its GPUs; empty: it needs an MPS server.
  std::optional<core::Sharing> PlainSharing(const core::StartTask& start) const;
  // Starts an attempt whose decision is durable. An MPS client starts later, by StartArranged().
  void Launch(const core::StartTask& start);
  // Called when this record is durable: starts the attempt if it waited for its sharing to be
  // stored.
  void StartArranged(const core::TaskRecord& record);
  void Stop(const core::StopTask& stop);
  // Called after the starts and ends of a turn: withholds dedicated cores from other tasks, or
  // returns them.
  void ShareCores();
  // Confines an attempt that now runs: others may have got dedicated cores since its order was
  // written.
  void Confine(const core::TaskRecord& record);
  // Called after a reading: the kernel limits of running tasks follow the promises. A task may take
  // its claim and the margin, but nothing that others were promised since it reached its plateau.
  void FollowPromises(base::Time now);
  // Call it when the attempt has ended or never started.
  void Detach(core::TaskId id, int attempt);
  // Removes what is left of the attempt.
  void Forget(core::TaskId id, int attempt);

  std::string AttemptDir(core::TaskId id, int attempt) const;
  // GPU sets of possible MPS servers, as task::MpsServerId::gpus.
  std::vector<std::string> MpsServers() const;

 private:
  struct Arranged {
    task::LaunchOrder order;
    core::StartTask start;
    std::optional<core::Sharing> sharing;  // empty: not yet known
  };

  const core::GpuInfo& Gpu(const core::Placement& at) const;
  Result<task::LaunchOrder> OrderFor(const core::StartTask& start);
  core::Sharing MpsSharing(const core::StartTask& start, const task::MpsServerId& server,
                           const MpsPlace& place) const;
  task::MpsServerId MpsServerOf(const task::LaunchOrder& order) const;
  std::string CoresOf(const core::TaskRecord& record) const;
  std::string SharedCores() const;
  void ApplySharing(const core::Sharing& sharing, const core::StartTask& start,
                    task::LaunchOrder& order) const;
  // The memory limit that the kernel sets for a task on each of these GPUs; 0: none.
  std::int64_t GroupLimitMib(const std::vector<core::Placement>& placement,
                             std::int64_t bound_mib) const;
  // For each task, the limits on its GPUs that leave to others what they are promised.
  std::map<core::TaskId, std::vector<task::GpuMemoryLimit>> Rooms(base::Time now) const;
  // Handles the answer of the MPS servers: the attempt starts once its sharing is durable.
  void TakeAttached(core::TaskId id, int attempt, const Result<MpsPlace>& attached);

  const EngineOptions& options_;
  store::Store& store_;
  task::Launcher& launcher_;
  const core::Scheduler& core_;
  Attribution& attribution_;
  PostEvent post_;
  // Cores that are not dedicated, as in base/cpu_list.h, "" for all; empty: not yet set for any
  // task.
  std::optional<std::string> shared_cores_;
  // Attempts that wait for an MPS client slot, or for their sharing to become durable.
  std::unordered_map<std::uint64_t, Arranged> arranged_;
};

}  // namespace carma::daemon
