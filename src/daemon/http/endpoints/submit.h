// New tasks: described anew, with a dry run of the same, or as an earlier one was.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/estimates.h"
#include "daemon/http/routes.h"
#include "daemon/http/snapshot_answers.h"
#include "daemon/loop/serial_executor.h"

namespace carma::daemon {

struct SubmitServices {
  Engine& engine;
  base::Clock& clock;
  std::size_t max_batch = 0;  // tasks of one submission
  // Runs the first on a worker's thread and then the second on the loop.
  std::function<void(std::function<void()> read, std::function<void()> then)> aside;
  // Large bodies, one at a time from the reading to the answer: each may stand for hundreds of MiB.
  std::shared_ptr<SerialExecutor> large = std::make_shared<SerialExecutor>();
  // As EstimateService::Ask.
  std::function<void(std::vector<EstimateJob>, EstimateService::Take)> estimate;
  AnswerAside from_snapshot = AnswerAtOnce;
};

// Body: {"tasks": [spec, …], "common": fields of all of them}, or {"spec": spec, "array": [index,
// …]}; both with an optional "request", the submission's own name: repeated within a day it is
// answered with the tasks of the first. Answers 201 and the numbers once the tasks are durable;
// with ?check=1 what would become of each of them.
base::Result<base::Unit> SubmitTasks(const SubmitServices& services, const Call& call,
                                     const api::Responder& reply);

// The task of {id} once more, as a new one of the same owner and with his rights, whoever asks: the
// owner or an administrator. The request has no body, so nobody can slip another program or path
// under the owner's name. What is over is left out: dependencies, begin time, hold. Answers like
// SubmitTasks.
base::Result<base::Unit> RedoTask(const SubmitServices& services, const Call& call,
                                  const api::Responder& reply);

}  // namespace carma::daemon
