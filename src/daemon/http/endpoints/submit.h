// Endpoints for new tasks: submissions, their dry run, and the repetition of an earlier task.
#pragma once

#include <string>
#include <vector>

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// Body: {"tasks": [spec, …], "common": fields of all tasks}, or {"spec": spec, "array": [index,
// …]}. Both may have "request", a unique name: if it is repeated within a day, the answer is that
// of the first submission. Answers 201 and the task numbers once the tasks are durable; with
// ?check=1 submits nothing and answers with a prediction for each task.
Result<Unit> SubmitTasks(const SharedServices& services, const Call& call,
                         const api::Responder& reply);

// Repeats the task {id} as a new task of the same owner, with the owner's rights. For the owner and
// administrators. Fields that could run another program in the owner's name are not accepted.
// Dependencies, begin time and hold are dropped. Answers like SubmitTasks.
Result<Unit> RedoTask(const SharedServices& services, const Call& call,
                      const api::Responder& reply);

// One sentence for each wish of these tasks that this server cannot fulfil.
std::vector<std::string> SubmitWarnings(const Engine& engine, const TaskList& tasks);

}  // namespace carma::daemon
