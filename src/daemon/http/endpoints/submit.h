// Endpoints for new tasks: submissions, their dry run, and the repetition of an earlier task.
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
  std::size_t max_batch = 0;  // largest number of tasks in a submission
  // Runs `read` on a worker, then `then` on the loop.
  std::function<void(std::function<void()> read, std::function<void()> then)> aside;
  // Large bodies are handled one at a time, from reading to answer, because each may take hundreds
  // of MiB.
  std::shared_ptr<SerialExecutor> large = std::make_shared<SerialExecutor>();
  // As EstimateService::Ask.
  std::function<void(std::vector<EstimateJob>, EstimateService::Take)> estimate;
  AnswerAside from_snapshot = AnswerAtOnce;
};

// Body: {"tasks": [spec, …], "common": fields of all tasks}, or {"spec": spec, "array": [index,
// …]}. Both may have "request", a unique name: if it is repeated within a day, the answer is that
// of the first submission. Answers 201 and the task numbers once the tasks are durable; with
// ?check=1 submits nothing and answers with a prediction for each task.
Result<Unit> SubmitTasks(const SubmitServices& services, const Call& call,
                         const api::Responder& reply);

// Repeats the task {id} as a new task of the same owner, with the owner's rights. For the owner and
// administrators. Fields that could run another program in the owner's name are not accepted.
// Dependencies, begin time and hold are dropped. Answers like SubmitTasks.
Result<Unit> RedoTask(const SubmitServices& services, const Call& call,
                      const api::Responder& reply);

// One sentence for each wish of these tasks that this server cannot fulfil.
std::vector<std::string> SubmitWarnings(const Engine& engine, const TaskList& tasks);

}  // namespace carma::daemon
