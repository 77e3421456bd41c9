// Endpoints for leases: GPUs for processes that another launcher starts. Users see their own
// leases, administrators all. A lease accepts only processes that run as its owner, according to
// the kernel.
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
  // Calls back once the lease is granted or has ended, or after `seconds` of real time.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_changed;
  Routes::AskName ask_name;
  // Reads the claim of a Slurm job in GiB on each node; empty: none. Errors: kUnavailable. If
  // ask_claim is null, Slurm is never asked.
  using TakeClaim = std::function<void(const Result<std::optional<std::int64_t>>&)>;
  std::function<void(std::uint64_t job, TakeClaim)> ask_claim = nullptr;
  // Returns whether the task's job is being requeued in Slurm and must not end yet; null: never.
  std::function<bool(core::TaskId)> holds_job = nullptr;
  // Returns whether the task's job is being sent to another node and must not start here; null:
  // never.
  std::function<bool(core::TaskId)> leaves = nullptr;
};

// Takes {"spec": description, "request": a unique name, "pid": N}, like a submission of one task;
// without pid, the lease is for the calling process. Answers 201 once the lease is durable; if
// repeated within a day, the same answer with 200. Root and the daemon's user may add "owner" and
// "key" (task::LeaseKey). Then pid is the step's keeper (task/lease), the same key and pid give the
// same lease, and a step shares the lease of its job's script.
Result<Unit> MakeLease(const LeaseServices& services, const Call& call,
                       const api::Responder& reply);
// Lists unfinished leases. ?job=: only those for steps of that job.
Answer ListLeases(const LeaseServices& services, const Call& call);
// ?wait_s=: while the lease waits, the answer is delayed by at most this long.
Result<Unit> ShowLease(const LeaseServices& services, const Call& call,
                       const api::Responder& reply);
// Takes {"pid": N}, by default the calling process. Answers {"environment": {…}}. Errors: kConflict
// unless the lease is granted, or already adopted by the same process; kDenied for a process
// outside the lease's step; kUnavailable while the job is being sent to another node.
Answer AdoptLease(const LeaseServices& services, const Call& call);
// Takes {"exit_code": N, "signal": N, "stderr_tail": text}, all optional. Only the first report
// counts.
Answer EndLease(const LeaseServices& services, const Call& call);

}  // namespace carma::daemon
