// How attempts start and are stopped: what the launcher is told, and whom a task shares its GPUs
// with, by which means (docs/server/collocation.md).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/scheduler/scheduler.h"
#include "daemon/engine/engine_options.h"
#include "daemon/gpus/attribution.h"
#include "store/store.h"
#include "task/shim/launcher.h"

namespace carma::daemon {

class Starts {
 public:
  // All outlive it. The core is only asked; what it must hear is posted: SharingChosen of a client
  // of an MPS server, LaunchFailed of what never reached the launcher.
  Starts(const EngineOptions& options, store::Store& store, task::Launcher& launcher,
         const core::Scheduler& core, Attribution& attribution, PostEvent post);

  // An attempt of an earlier life of the daemon. Before the core hears of it, so that a stop it
  // asks for again finds its shim. gid: of the task's owner.
  void Adopt(const core::TaskRecord& record, std::uint32_t gid);
  // Once, at the start: removes what ended attempts have left behind. kept: those that are adopted.
  void Sweep(const std::function<bool(core::TaskId, int attempt)>& kept) const;
  // How an attempt that needs no MPS server shares its GPUs; empty: it is to have one.
  std::optional<core::Sharing> PlainSharing(const core::StartTask& start) const;
  // The decision is durable. A client of an MPS server starts later, by StartArranged().
  void Launch(const core::StartTask& start);
  // This record is durable: the attempt starts if it waited for its sharing to be so.
  void StartArranged(const core::TaskRecord& record);
  void Stop(const core::StopTask& stop);
  // After the starts and ends of a turn: cores that a task has for itself are kept from all others,
  // and given back.
  void ShareCores();
  // Of an attempt that runs now: others may have got cores since its order was written.
  void Confine(const core::TaskRecord& record);
  // The attempt has ended, or never began.
  void Detach(core::TaskId id, int attempt);
  // Nothing of the attempt is needed any more.
  void Forget(core::TaskId id, int attempt);

  std::string AttemptDir(core::TaskId id, int attempt) const;
  // The MPS servers that tasks here may have, as task::MpsServerId::gpus.
  std::vector<std::string> MpsServers() const;

 private:
  struct Arranged {
    task::LaunchOrder order;
    core::StartTask start;
    std::optional<core::Sharing> sharing;  // empty: not yet known
  };

  const core::GpuInfo& Gpu(const core::Placement& at) const;
  base::Result<task::LaunchOrder> OrderFor(const core::StartTask& start);
  core::Sharing MpsSharing(const core::StartTask& start, const task::MpsServerId& server) const;
  task::MpsServerId MpsServerOf(const task::LaunchOrder& order) const;
  std::string CoresOf(const core::TaskRecord& record) const;
  std::string SharedCores() const;
  void ApplySharing(const core::Sharing& sharing, const core::StartTask& start,
                    task::LaunchOrder& order) const;
  // What the kernel lets the task take of each GPU; 0: no limit.
  std::int64_t GroupLimitMib(const core::StartTask& start) const;
  // The answer of the MPS servers: the attempt starts once its sharing is durable.
  void TakeAttached(core::TaskId id, int attempt, const base::Result<base::Unit>& attached);

  const EngineOptions& options_;
  store::Store& store_;
  task::Launcher& launcher_;
  const core::Scheduler& core_;
  Attribution& attribution_;
  PostEvent post_;
  // Nobody's own, as base/cpu_list.h writes them, or "" for all; empty: no task was told yet.
  std::optional<std::string> shared_cores_;
  // Attempts that wait for a place at an MPS server, or for their sharing to become durable.
  std::unordered_map<std::uint64_t, Arranged> arranged_;
};

}  // namespace carma::daemon
