// Endpoints that show the state and history of GPUs, drain GPUs and resume them.
#pragma once

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// {id} in a path is a GPU's index or UUID.
Answer ListGpus(const SharedServices& services, const Call& call);
// Returns TaskMetricsText() (daemon/present/metrics.h).
Answer ShowTaskMetrics(const SharedServices& services, const Call& call);
// ?from_ms= &to_ms= &points=: the history of one GPU, by default for the last hour. Old data is
// read on a worker.
Result<Unit> ShowGpuHistory(const SharedServices& services, const Call& call,
                            const api::Responder& reply);
// ?from_ms= &to_ms= &points=: the history of all GPUs as an HTML page.
Result<Unit> DrawGpuHistory(const SharedServices& services, const Call& call,
                            const api::Responder& reply);
// Both endpoints are for administrators and return the changed GPU once the change is durable.
// Optional request body for a drain: {"reason": text, "by_ms": time}.
Result<Unit> DrainGpu(const SharedServices& services, const Call& call,
                      const api::Responder& reply);
Result<Unit> ResumeGpu(const SharedServices& services, const Call& call,
                       const api::Responder& reply);

}  // namespace carma::daemon
