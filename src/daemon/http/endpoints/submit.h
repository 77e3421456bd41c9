// Endpoints that submit tasks, check them in dry runs, and resubmit earlier tasks.
#pragma once

#include <string>
#include <vector>

#include "daemon/http/endpoints.h"

namespace carma::daemon {

// Takes {"tasks": [spec, …], "common": fields of all tasks}, or {"spec": spec, "array": [index,
// …]}. Both may have "request", a unique name. If the name is repeated within a day, the response
// is that of the first submission. Responds with 201 and the task numbers once the tasks are
// durable. With ?check=1 nothing is submitted, and the response contains a prediction for each
// task.
Result<Unit> SubmitTasks(const SharedServices&, const Call&, const api::Responder&);

// Submits the task {id} again as a new task of the same owner, with the owner's privileges. For the
// owner and administrators. Changed fields must not cause a different program to run on the owner's
// behalf. Dependencies, begin time and hold are dropped. Responds like SubmitTasks.
Result<Unit> RedoTask(const SharedServices&, const Call&, const api::Responder&);

// One sentence for each feature that these tasks request but this server does not provide.
std::vector<std::string> SubmitWarnings(const Engine& engine, const TaskList& tasks);

}  // namespace carma::daemon
