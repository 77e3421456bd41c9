// Endpoints for submissions, their dry runs, and resubmitting earlier tasks.
#pragma once

#include <string>
#include <vector>

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// Takes {"tasks": [spec, …], "common": fields of all tasks}, or {"spec": spec, "array": [index,
// …]}. Both may have "request", a unique name. If the name is repeated within a day, the answer is
// that of the first submission. Answers 201 with the task numbers once the tasks are durable. With
// ?check=1 nothing is submitted, and the answer is a prediction for each task.
Result<Unit> SubmitTasks(const SharedServices& services, const Call& call,
                         const api::Responder& reply);

// Submits the task {id} again as a new task of the same owner, with the owner's rights. For the
// owner and administrators. Changed fields must not make another program run in the owner's name.
// Dependencies, begin time and hold are dropped. Answers like SubmitTasks.
Result<Unit> RedoTask(const SharedServices& services, const Call& call,
                      const api::Responder& reply);

// One sentence for each request of these tasks that this server cannot fulfil.
std::vector<std::string> SubmitWarnings(const Engine& engine, const TaskList& tasks);

}  // namespace carma::daemon
