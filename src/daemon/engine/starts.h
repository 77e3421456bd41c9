// Starts and stops attempts through the launcher, and decides how tasks share GPUs
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
  // All arguments must outlive this object. Posts SharingChosen for MPS clients, and LaunchFailed
  // for attempts that never reach the launcher.
  Starts(const EngineOptions& options, store::Store& store, task::Launcher& launcher,
         const core::Scheduler& core, Attribution& attribution, PostEvent post);

  // Registers an attempt from an earlier run. Must be called before the attempt reaches the core,
  // because the core may immediately stop it and Stop() must know its shim. gid: the GID of the
  // task's owner.
  void Adopt(const core::TaskRecord& record, std::uint32_t gid);
  // Called once at startup. Removes what finished attempts have left behind. kept: returns true if
  // an attempt was adopted.
  void Sweep(const std::function<bool(core::TaskId, int attempt)>& kept) const;
  // How an attempt shares its GPUs without an MPS server; empty if it needs one.
  std::optional<core::Sharing> PlainSharing(const core::StartTask& start) const;
  // Called once the decision to start the attempt is durable. MPS clients are started later, by
  // StartArranged().
  void Launch(const core::StartTask& start);
  // Called once this record is durable. Starts the attempt if it was waiting for its sharing mode
  // to be stored.
  void StartArranged(const core::TaskRecord& record);
  void Warn(const core::WarnTask& warn);
  void Stop(const core::StopTask& stop);
  // Called after attempts have started or ended. Takes newly dedicated cores away from all other
  // tasks, or gives back cores that are no longer dedicated.
  void ShareCores();
  // Confines a running attempt to its cores, because other tasks may have been given dedicated
  // cores since its launch order was written.
  void Confine(const core::TaskRecord& record);
  // Called after each reading of the GPUs. Adjusts the kernel's memory limits for running tasks. A
  // task may use its claim plus the margin, minus any memory that was promised to others while the
  // task was on a plateau.
  void FollowPromises(base::Time now);
  // Must be called when the attempt has ended or never started.
  void Detach(core::TaskId id, int attempt);
  // Removes the files that the attempt left behind.
  void Forget(core::TaskId id, int attempt);

  std::string AttemptDir(core::TaskId id, int attempt) const;
  // The GPU sets of possible MPS servers, as in task::MpsServerId::gpus.
  std::vector<std::string> MpsServers() const;

 private:
  struct Arranged {
    task::LaunchOrder order;
    core::StartTask start;
    std::optional<core::Sharing> sharing;  // empty until it is known
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
  // The memory limit that the kernel enforces for a task on each of these GPUs; 0 if there is no
  // limit.
  std::int64_t GroupLimitMib(const std::vector<core::Placement>& placement,
                             std::int64_t bound_mib) const;
  // Each task's memory limits on its GPUs, chosen so that other tasks can still get the memory that
  // they were promised.
  std::map<core::TaskId, std::vector<task::GpuMemoryLimit>> Rooms(base::Time now) const;
  // Handles the response from the MPS servers. The attempt starts once its sharing mode is durable.
  void TakeAttached(core::TaskId id, int attempt, const Result<MpsPlace>& attached);

  const EngineOptions& options_;
  store::Store& store_;
  task::Launcher& launcher_;
  const core::Scheduler& core_;
  Attribution& attribution_;
  PostEvent post_;
  // Cores not dedicated to any task, in the format of base/cpu_list.h ("" means all cores); nullopt
  // until set for the first task.
  std::optional<std::string> shared_cores_;
  // Attempts that are waiting for an MPS client slot or for their sharing mode to become durable.
  std::unordered_map<std::uint64_t, Arranged> arranged_;
};

}  // namespace carma::daemon
