// The functions that handle API calls, grouped by the source file that defines them. Those for
// tasks are in tasks.h, and those for the web page are in page.h.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// ---- server.cc ----
// Endpoints for the daemon itself: its status, metrics and API description.

Answer ShowStatus(const ServerServices&, const Call&);
Answer ShowMetrics(const ServerServices&, const Call&);
Answer ShowOpenApi(const ServerServices&, const Call&);

// ---- tokens.cc ----
// Endpoints that show who the caller is, and that manage tokens for callers that the kernel cannot
// identify.

// Returns the caller's identity. Also works for unknown callers.
Answer ShowWho(const ServerServices&, const Call&);
// Tokens can be created, listed and revoked only over the Unix socket, so that nobody can use a
// token to create more tokens. Body: {"name": text, "expires_s": seconds}, both optional. Responds
// with 201 and the token.
Answer MakeToken(const ServerServices&, const Call&);
// Lists the caller's own tokens. With ?all=1 lists the tokens of all users, for administrators
// only.
Answer ListTokens(const ServerServices&, const Call&);
// {id}: users may revoke only their own tokens, administrators any. Returns {}.
Answer RevokeToken(const ServerServices&, const Call&);

// ---- gpus.cc ----
// Endpoints that show the state and history of GPUs, drain GPUs and resume them.

// {id} in a path is a GPU's index or UUID.
Answer ListGpus(const SharedServices&, const Call&);
// Returns TaskMetricsText() (daemon/present/metrics.h).
Answer ShowTaskMetrics(const SharedServices&, const Call&);
// ?from_ms= &to_ms= &points=: the history of one GPU, by default for the last hour. Old data is
// read on a worker.
Result<Unit> ShowGpuHistory(const SharedServices&, const Call&, const api::Responder&);
// ?from_ms= &to_ms= &points=: the history of all GPUs as an HTML page.
Result<Unit> DrawGpuHistory(const SharedServices&, const Call&, const api::Responder&);
// Both endpoints are for administrators and return the changed GPU once the change is durable.
// Optional request body for a drain: {"reason": text, "by_ms": time}.
Result<Unit> DrainGpu(const SharedServices&, const Call&, const api::Responder&);
Result<Unit> ResumeGpu(const SharedServices&, const Call&, const api::Responder&);

// ---- closing.cc ----
// Endpoints that close the whole server before its machine shuts down, and that reopen it.

// Both endpoints are for administrators and return the daemon's state once the change is durable.
// Optional body: {"reason": text, "by_ms": time}. Without by_ms, tasks must leave within
// slots.shutdown_notice.
Result<Unit> CloseServer(const SharedServices&, const Call&, const api::Responder&);
Result<Unit> OpenServer(const SharedServices&, const Call&, const api::Responder&);

// ---- reservations.cc ----
// Endpoints that list, make and remove GPU reservations.

Answer ListReservations(const SharedServices&, const Call&);
// Takes a core::Reservation. For administrators and the users in reserve.makers. Responds with 201
// and the reservation once it is durable.
Result<Unit> MakeReservation(const SharedServices&, const Call&, const api::Responder&);
// {id}: users may remove only their own reservations, administrators any. Returns {} once the
// removal is durable.
Result<Unit> RemoveReservation(const SharedServices&, const Call&, const api::Responder&);

// ---- leases.cc ----
// Endpoints for leases, which give GPUs to processes started by another launcher. Users see only
// their own leases; administrators see all leases. A lease accepts only processes that, according
// to the kernel, run as its owner.

// Takes {"spec": description, "request": a unique name, "pid": N}, like a submission of one task.
// Without pid, the lease is for the calling process. Responds with 201 once the lease is durable.
// Repeating the request within a day gives the same response with status 200.
//
// Root and the daemon's user may add "owner" and "key" (task::LeaseKey). pid is then the step's
// keeper (task/lease). Repeating the key and pid returns the same lease. A step shares the lease of
// its job's script.
Result<Unit> MakeLease(const SharedServices&, const Call&, const api::Responder&);
// Lists unfinished leases. With ?job= lists only leases for steps of that job.
Answer ListLeases(const SharedServices&, const Call&);
// ?wait_s=: while the lease is waiting, delays the response for up to this many seconds.
Result<Unit> ShowLease(const SharedServices&, const Call&, const api::Responder&);
// Takes {"pid": N}, by default the calling process. Returns {"environment": {…}}. Fails with
// kConflict unless the lease is granted or the same process has already adopted it. Fails with
// kDenied for a process outside the lease's step, and with kUnavailable while the job is being
// moved to another node.
Answer AdoptLease(const SharedServices&, const Call&);
// Takes {"exit_code": N, "signal": N, "stderr_tail": text}, all optional. Only the first report
// counts.
Answer EndLease(const SharedServices&, const Call&);

// ---- estimates.cc ----
// Endpoints that show what the server has learned about tasks' memory.

// ?gpu_type=: shows the calibration for this GPU type (default: the most common type). ?signature=
// &kin=: shows the runs with these values.
Answer ShowKnowledge(const SharedServices&, const Call&);
// Resets the calibration to the shipped one. For administrators only.
Result<Unit> ForgetCalibration(const SharedServices&, const Call&, const api::Responder&);

// ---- output.cc ----
// The endpoint for a task's output.

// ?stream=stdout or stderr; &bytes=: the number of bytes to return from the end of the file
// (default 16 KiB). For the owner and administrators. The file is read with the owner's privileges.
// Returns {"path", "text", "from", "size"}: `from` is the position of the text in the file, and
// `size` is the file's length.
Result<Unit> ShowOutput(const SharedServices&, const Call&, const api::Responder&);

// ---- past.cc ----
// Endpoints for events and for reports on the tasks of a given period.

// ?task= &after= &limit=: by default the newest hundred events.
Answer ListEvents(const SharedServices&, const Call&);
// A report on the tasks submitted in a period, their events, and GPU usage. ?after_ms= &until_ms=
// &last=: the period; &run=1: also lists all tasks and the GPU usage over time. Built on a worker,
// because reading a year of data takes seconds.
Result<Unit> MakeReport(const SharedServices&, const Call&, const api::Responder&);
// Like MakeReport with &run=1, but returns the HTML page that `carma report --html` writes.
Result<Unit> DrawReport(const SharedServices&, const Call&, const api::Responder&);
// ?by=: any of user, account, qos and month or day (default: user); &after_ms= &until_ms=. Built on
// a worker.
Result<Unit> TellUsage(const SharedServices&, const Call&, const api::Responder&);

}  // namespace carma::daemon
