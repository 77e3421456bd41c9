// GPUs: how they are, how they were, closing and opening them.
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
  std::string state_dir;  // of that store, for a reader of its own
  base::Duration sample_period{};
  AnswerLater answer_later;
};

// {id} of a path is an index or a UUID.
Answer ListGpus(const GpuServices& services, const Call& call);
// TaskMetricsText() of daemon/metrics.h.
Answer ShowTaskMetrics(const GpuServices& services, const Call& call);
// ?from_ms= &to_ms= &points=; by default the last hour. What is long ago is read on a worker.
base::Result<base::Unit> ShowGpuHistory(const GpuServices& services, const Call& call,
                                        const api::Responder& reply);
// ?from_ms= &to_ms= &points=: all GPUs over time, as a page to look at.
base::Result<base::Unit> DrawGpuHistory(const GpuServices& services, const Call& call,
                                        const api::Responder& reply);
// Both answer with the GPU as it is once the change is durable; for administrators. Body of a
// drain, which may be absent: {"reason": text}.
base::Result<base::Unit> DrainGpu(const GpuServices& services, const Call& call,
                                  const api::Responder& reply);
base::Result<base::Unit> ResumeGpu(const GpuServices& services, const Call& call,
                                   const api::Responder& reply);

}  // namespace carma::daemon
