// Attempts whose process somebody else starts. When the core starts such a task, its GPUs are
// granted: the order is kept until the process for which they are comes and takes it (adopts the
// lease). From then on that process is the task; when it is gone, by whatever cause, the attempt
// has ended. Nobody has to say so.
//
// A lease with a key (LeaseKey) is for a step of a workload manager's job, and the process that
// asked for it is the step's keeper: whatever lives below that may adopt the lease, others beside
// the first one too, and it has ended when all of them and the keeper are gone. A keeper is never
// signalled.
//
// A process that adopts it under the name kWaitsForLease has not begun; the attempt has started
// when it has another name, or after Options::adoption_limit. One that ends before, as far as
// anybody can tell, has started nothing: the attempt could not be launched, like that of a grant
// that nobody adopts.
//
// A file in an attempt's folder, `lease`, tells a restarted daemon where it stood, by its lines:
//   {…}              granted: for which process, and what it is to find in its environment
//   keeper, process  adopted, by which processes; kept before they hear of it
//   end              what was said of its end; kept before whoever said it hears of it
// A keeper that finds no daemon leaves what it would have said in Options::ends_dir.
// A machine that loses power loses the processes as well, so these files wait for no disk.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "task/describe/lease.h"
#include "task/lease/lease_files.h"
#include "task/shim/launcher.h"

namespace carma::task {

class LeaseLauncher : public Launcher {
 public:
  using Environment = std::map<std::string, std::string>;
  struct Options {
    // Real time. A grant is withdrawn then, and an adopted lease counts as begun.
    std::chrono::milliseconds adoption_limit{30'000};
    // Real time after KILL: a lease whose process still lives has ended nevertheless.
    std::chrono::milliseconds kill_limit{10'000};
    // No lease may be for this process, nor for one that it runs below (lease_processes.h).
    pid_t daemon = ::getpid();
    // Files ID of JSON, written by root or us: exit_code, signal, stderr_tail, and the pid of the
    // keeper. Empty: none are looked for.
    std::string ends_dir;
  };
  // Called from Poll(), on the owner's loop.
  struct Listener {
    std::function<void(core::TaskId)> gone;     // a process that waits has ended
    std::function<void(core::TaskId)> granted;  // Granted() from now on
    // What lives below that process belongs to the task as well; after the event of its start.
    std::function<void(core::TaskId, const base::ProcessId&)> joined = nullptr;
  };

  // others: starts all tasks that are no leases. Errors: the system's.
  static base::Result<std::unique_ptr<LeaseLauncher>> Make(std::unique_ptr<Launcher> others,
                                                           Options options);
  virtual void Listen(Listener listener) = 0;
  // A task that waits, for that process. Once it is durable, and again after a restart.
  virtual void Watch(core::TaskId id, const LeaseProcess& process,
                     const std::optional<LeaseKey>& key = {}) = 0;
  // The GPUs are its own, and it has not adopted them yet.
  virtual bool Granted(core::TaskId id) const = 0;
  virtual bool Adopted(core::TaskId id) const = 0;
  // Those that wait, are granted or adopted.
  virtual std::vector<core::TaskId> Leases() const = 0;
  // Those of them that are for steps of that job, with their keys.
  virtual std::vector<std::pair<core::TaskId, LeaseKey>> LeasesOfJob(std::uint64_t job) const = 0;
  // Empty: it has none.
  virtual std::optional<LeaseKey> KeyOf(core::TaskId id) const = 0;
  // The process that asked for it, or the first of those that have it.
  virtual std::optional<LeaseProcess> ProcessOf(core::TaskId id) const = 0;
  // Another step of the job shares an adopted lease with a key: its keeper. Errors: kConflict: not
  // adopted, no key, the process has ended; those of the disk.
  virtual base::Result<base::Unit> JoinLease(core::TaskId id, const LeaseProcess& keeper) = 0;
  // The process is the task from now on; returns what it is to have in its environment. The same
  // process may ask again. Errors: kConflict: not granted, adopted by another, the process has
  // ended; kDenied: it does not live below a keeper of the lease; those of the disk: nothing has
  // happened; no lease may be for the process.
  virtual base::Result<Environment> AdoptLease(core::TaskId id, const LeaseProcess& process) = 0;
  // Errors: kConflict: no lease may be for that process.
  virtual base::Result<base::Unit> MayHaveLease(pid_t pid) const = 0;
  // The processes of a step's lease that the driver lists on its GPUs. With each new one the files
  // are noted to which its processes write, for when they are gone: Outputs().
  virtual void SeenOnGpus(core::TaskId id, const std::vector<pid_t>& pids) = 0;
  virtual std::vector<std::string> Outputs(core::TaskId id) const = 0;
  // Its owner says how it has ended. Errors: kConflict: not adopted; those of the disk.
  virtual base::Result<base::Unit> EndLease(core::TaskId id, const LeaseEnd& end) = 0;
};

}  // namespace carma::task
