// Leases: GPUs for processes that somebody else starts. The owner's own, or anybody's for
// administrators; of processes only those that run as the owner, as the kernel tells.
#pragma once

#include <functional>

#include "daemon/engine/engine.h"
#include "daemon/http/routes.h"
#include "task/lease/lease_launcher.h"

namespace carma::daemon {

struct LeaseServices {
  Engine& engine;
  store::Store& store;
  base::Clock& clock;
  task::LeaseLauncher& leases;
  // Calls back once the lease is granted or has ended, or after real seconds.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_changed;
  Routes::AskName ask_name;
  // What Slurm counts for a job, GiB on each node, empty: nothing, or it cannot be asked. Null: it
  // is never asked.
  std::function<void(std::uint64_t job, std::function<void(std::optional<std::int64_t>)>)>
      ask_claim = nullptr;
  // A job that is being put back into Slurm's queue must not end yet; empty: none may.
  std::function<bool(core::TaskId)> holds_job = nullptr;
};

// Takes {"spec": description, "request": its own name, "pid": N}: as a submission of one task; pid
// absent: the process that calls. Answers 201 once it is durable; repeated within a day the same
// with 200. From root and the daemon's user also "owner", whose it is, and "key", a task::LeaseKey:
// then pid is the step's keeper (task/lease), the same key and pid are the same lease, and a step
// of a job whose script has one shares that.
base::Result<base::Unit> MakeLease(const LeaseServices& services, const Call& call,
                                   const api::Responder& reply);
// Those that have not ended. ?job=: for steps of that job.
Answer ListLeases(const LeaseServices& services, const Call& call);
// ?wait_s=: of one that waits, answers when it does no more, or after so long.
base::Result<base::Unit> ShowLease(const LeaseServices& services, const Call& call,
                                   const api::Responder& reply);
// Takes {"pid": N} or nothing: the process that calls. Answers {"environment": {…}}. Errors:
// kConflict unless it is granted, or adopted by that very process; kDenied for one that is not of
// the step for which the lease is.
Answer AdoptLease(const LeaseServices& services, const Call& call);
// Takes {"exit_code": N, "signal": N, "stderr_tail": text}, all of them optional. The first counts.
Answer EndLease(const LeaseServices& services, const Call& call);

}  // namespace carma::daemon
