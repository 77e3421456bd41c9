// Handles leases: tasks whose process carmad does not start itself. When the core starts such a
// task, its GPUs are granted, and the launcher waits until the intended process adopts the lease.
// From then on, that process is the task. The attempt ends when the process exits, even if nobody
// reports how.
//
// A lease with a key (LeaseKey) is for a step of a workload manager's job. The process that
// requested it is the step's keeper, and one or more processes below the keeper may adopt the
// lease. The lease ends when all of these processes and the keeper are gone. A keeper is never
// signalled.
//
// A process that adopts the lease under the name kWaitsForLease has not started the real program
// yet. The attempt starts when the process takes another name, or after Options::adoption_limit. If
// the process exits before that, the launch has failed, as if no process had adopted the lease.
//
// A restarted carmad restores its state from the lines of the file `lease` in an attempt's folder:
//   {…}              granted: the intended process, and the environment that it gets
//   keeper, process  adopted: the adopting processes; stored before they get the response
//   end              how the lease ended; stored before it is acknowledged
// A keeper that finds no running carmad leaves its report in Options::ends_dir. A power failure
// kills the processes too, so these files are not synced.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "task/describe/lease.h"
#include "task/lease/lease_book.h"
#include "task/shim/launcher.h"

namespace carma::task {

class LeaseLauncher : public Launcher, public LeaseBook {
 public:
  using Environment = std::map<std::string, std::string>;
  struct Options {
    // Real time until an unadopted grant is withdrawn, or until an adopted lease counts as started.
    std::chrono::milliseconds adoption_limit{30'000};
    // Real time after KILL until a lease is treated as ended even if its process is still alive.
    std::chrono::milliseconds kill_limit{10'000};
    // This process and its ancestors cannot have a lease (lease_processes.h).
    pid_t daemon = ::getpid();
    // Folder in which keepers leave their reports; empty if there is none. Each report is a JSON
    // file named after the lease's id, with exit_code, signal, stderr_tail and the keeper's pid. It
    // must belong to root or to this process's user.
    std::string ends_dir;
  };
  // Called from Poll(), on the owner's loop.
  struct Listener {
    std::function<void(core::TaskId)> gone;     // a waiting process has exited
    std::function<void(core::TaskId)> granted;  // Granted() is true from now on
    // The process is a keeper of the lease, so its descendants belong to the task too. Called after
    // the event that reports the task's start.
    std::function<void(core::TaskId, const base::ProcessId&)> joined = nullptr;
  };

  // others: the launcher for tasks that are not leases. Returns a system error on failure.
  static Result<std::unique_ptr<LeaseLauncher>> Make(std::unique_ptr<Launcher> others,
                                                     Options options);
  virtual void Listen(Listener listener) = 0;
  // Watches the process of a waiting lease. Call it once the lease is durable, and again after a
  // restart.
  virtual void Watch(core::TaskId id, const LeaseProcess& process,
                     const std::optional<LeaseKey>& key = {}) = 0;
  // Lets another step of the same job share an adopted lease that has a key. keeper: identifies the
  // step. Returns kConflict if the lease is not adopted or has no key, or if the keeper has exited.
  // Also fails on disk errors.
  virtual Result<Unit> JoinLease(core::TaskId id, const LeaseProcess& keeper) = 0;
  // Makes `process` the lease's task and returns its environment. The same process may repeat the
  // call. Returns kConflict if the lease is not granted, has ended, or was adopted by another
  // process; also if `process` cannot have a lease. Returns kDenied if `process` is not below a
  // keeper of the lease. A disk error changes nothing.
  virtual Result<Environment> AdoptLease(core::TaskId id, const LeaseProcess& process) = 0;
  // Records the owner's report of how the lease ended. Returns kConflict if the lease is not
  // adopted. Also fails on disk errors.
  virtual Result<Unit> EndLease(core::TaskId id, const LeaseEnd& end) = 0;

 protected:
  using LeaseBook::LeaseBook;
};

}  // namespace carma::task
