// Endpoints for GPUs: their state and history, closing and opening them.
#pragma once

#include <string>

#include "base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/routes.h"

namespace carma::daemon {

struct GpuServices {
  Engine& engine;
  Monitor& monitor;
  store::Store& store;
  base::Clock& clock;
  std::string state_dir;  // folder of that store, for readers on other threads
  base::Duration sample_period{};
  AnswerLater answer_later;
};

// {id} of a path is an index or a UUID.
Answer ListGpus(const GpuServices& services, const Call& call);
// Answers with TaskMetricsText() (daemon/present/metrics.h).
Answer ShowTaskMetrics(const GpuServices& services, const Call& call);
// ?from_ms= &to_ms= &points=; the default is the last hour. Old data is read on a worker.
Result<Unit> ShowGpuHistory(const GpuServices& services, const Call& call,
                            const api::Responder& reply);
// ?from_ms= &to_ms= &points=: all GPUs over time, as an HTML page.
Result<Unit> DrawGpuHistory(const GpuServices& services, const Call& call,
                            const api::Responder& reply);
// Both are for administrators and answer with the changed GPU once the change is durable. Optional
// body of a drain: {"reason": text, "by_ms": time}.
Result<Unit> DrainGpu(const GpuServices& services, const Call& call, const api::Responder& reply);
Result<Unit> ResumeGpu(const GpuServices& services, const Call& call, const api::Responder& reply);

}  // namespace carma::daemon
