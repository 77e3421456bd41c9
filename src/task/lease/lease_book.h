// The leases of a launcher, with their states (waiting, granted, adopted) and processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/values/ids.h"
#include "task/describe/lease.h"
#include "task/lease/lease_files.h"
#include "task/shim/launcher.h"

namespace carma::task {

class LeaseBook {
 public:
  // Returns true if the lease is granted but not adopted yet.
  bool Granted(core::TaskId id) const;
  bool Adopted(core::TaskId id) const;
  // All waiting, granted and adopted leases.
  std::vector<core::TaskId> Leases() const;
  // The leases of this job's steps, with their keys.
  std::vector<std::pair<core::TaskId, LeaseKey>> LeasesOfJob(std::uint64_t job) const;
  // Empty if the lease has no key.
  std::optional<LeaseKey> KeyOf(core::TaskId id) const;
  // The process that requested the lease, or the first process that adopted it.
  std::optional<LeaseProcess> ProcessOf(core::TaskId id) const;
  // Returns kConflict if the process cannot have a lease.
  Result<Unit> MayHaveLease(pid_t pid) const;
  // pids: processes that use the GPUs of a step's lease, as reported by the driver. If one of them
  // is new, records which files the lease's processes write to. Outputs() needs these files after
  // the processes have exited.
  void SeenOnGpus(core::TaskId id, const std::vector<pid_t>& pids);
  std::vector<std::string> Outputs(core::TaskId id) const;

 protected:
  // daemon: the pid of carmad. It and its ancestors can never have a lease.
  explicit LeaseBook(pid_t daemon) : daemon_(daemon) {}

  // Null if the lease is unknown or belongs to another attempt.
  Lease* Find(core::TaskId id);
  const Lease* Find(core::TaskId id) const;
  Lease* Find(core::TaskId id, int attempt);
  // Checks that the process may adopt the lease. Returns true if the process has already adopted
  // it. Returns the same errors as LeaseLauncher::AdoptLease.
  Result<bool> MayAdopt(core::TaskId id, const LeaseProcess& process) const;

  std::map<core::TaskId, Lease> leases_;

 private:
  pid_t daemon_;
};

// Adds the member and records it on disk. The first adoption also records the lease's keepers and
// removes its other members. Returns kConflict if the process has exited or the lease has too many
// processes. Also fails on disk errors.
Result<Unit> AddLeaseMember(Lease& lease, LeaseMember member);

// Environment variables for the process of a granted lease.
std::map<std::string, std::string> EnvironmentOf(const LaunchOrder& order);

// How a lease is assumed to have ended if its processes exited without reporting to carmad.
LeaseEnd UnreportedEnd(const std::string& ends_dir, core::TaskId id, const Lease& lease);

}  // namespace carma::task
