// Endpoints for leases, which give GPUs to processes started by another launcher. Users see only
// their own leases; administrators see all leases. A lease accepts only processes that, according
// to the kernel, run as its owner.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// Takes {"spec": description, "request": a unique name, "pid": N}, like a submission of one task.
// Without pid, the lease is for the calling process. Responds with 201 once the lease is durable.
// Repeating the request within a day gives the same response with status 200.
//
// Root and the daemon's user may add "owner" and "key" (task::LeaseKey). Then pid is the step's
// keeper (task/lease). Repeating the key and pid returns the same lease, and a step shares the
// lease of its job's script.
Result<Unit> MakeLease(const SharedServices& services, const Call& call,
                       const api::Responder& reply);
// Lists unfinished leases. With ?job= lists only leases for steps of that job.
Answer ListLeases(const SharedServices& services, const Call& call);
// ?wait_s=: while the lease is waiting, delays the response for up to this many seconds.
Result<Unit> ShowLease(const SharedServices& services, const Call& call,
                       const api::Responder& reply);
// Takes {"pid": N}, by default the calling process. Returns {"environment": {…}}. Fails with
// kConflict unless the lease is granted or the same process has already adopted it, with kDenied
// for a process outside the lease's step, and with kUnavailable while the job is being moved to
// another node.
Answer AdoptLease(const SharedServices& services, const Call& call);
// Takes {"exit_code": N, "signal": N, "stderr_tail": text}, all optional. Only the first report
// counts.
Answer EndLease(const SharedServices& services, const Call& call);

}  // namespace carma::daemon
