// Endpoints for tasks: submissions, lists, details, explanations and changes.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/task_view.h"
#include "core/forecast/expected_start.h"
#include "daemon/http/endpoints.h"

namespace carma::daemon {

// ---- submit.cc: submissions, dry runs, and new submissions of earlier tasks ----

// Takes {"tasks": [spec, …], "common": fields of all tasks}, or {"spec": spec, "array": [index,
// …]}. Both may have "request", a unique name for the submission. Repeating the name within a day
// gives the first response again. Responds with 201 and the task numbers once the tasks are
// durable. With ?check=1, nothing is submitted, and the response contains predictions for the first
// tasks.
Result<Unit> SubmitTasks(const SharedServices&, const Call&, const api::Responder&);

// Submits the task {id} again as a new task of the same owner, with the owner's privileges. For the
// owner and administrators. Changed fields must not cause a different program to run on the owner's
// behalf. Dependencies, begin time and hold are dropped. Responds like SubmitTasks.
Result<Unit> RedoTask(const SharedServices&, const Call&, const api::Responder&);

// One sentence for each feature that these tasks request but this server does not provide.
std::vector<std::string> SubmitWarnings(const Engine& engine, const TaskList& tasks);

// ---- tasks.cc, task_list.cc, task_changes.cc ----

// ?state=queued,running or all, &user= &name= &limit= &before= &order=desc, asc or turn. By default
// lists the newest hundred unfinished tasks.
Result<Unit> ListTasks(const SharedServices&, const Call&, const api::Responder&);
// ?wait_s=: delays the response until the task has ended, for up to this many seconds.
Result<Unit> ShowTask(const SharedServices&, const Call&, const api::Responder&);
Result<Unit> ExplainTask(const SharedServices&, const Call&, const api::Responder&);
// Returns the task's description. For the owner and administrators only, because it contains the
// user's environment.
Answer ShowSpec(const SharedServices&, const Call&);
// Both endpoints are for the owner and administrators and return the changed task once the change
// is durable.
Result<Unit> ChangeTask(const SharedServices&, const Call&, const api::Responder&);
Result<Unit> SetPriority(const SharedServices&, const Call&, const api::Responder&);
// Takes {"verb":"cancel","tasks":[3,4]}. Applies one of ChangeTask's changes to at most
// api::kMostChanges tasks. Responds once all changes are durable. An error, such as a wrong state
// or another user's task, is reported for that task and does not affect the others.
Result<Unit> ChangeTasks(const SharedServices&, const Call&, const api::Responder&);

// Takes fields of a description, such as {"time_limit_s": 7200, …}; null removes a field. Returns
// the task once the change is durable. For the owner and administrators; only the owner may change
// notifications.
Result<Unit> EditTask(const SharedServices&, const Call&, const api::Responder&);

// Checks that this caller may set these fields with EditTask and RedoTask. Returns kInvalid if
// there are none or one cannot be changed. Returns kDenied for notifications of another user's
// task, because their target may be a program that runs with the owner's privileges.
Result<Unit> CheckEditable(const nlohmann::json& changes, const Caller& caller,
                           const store::StoredTask& stored);

// Whether the caller submitted the task. Also compares user names, because the UID may have
// belonged to a different person at that time.
bool Owns(const Caller& caller, const store::TaskOwner& owner);
bool Owns(const Caller& caller, const store::StoredTask& stored);

// Finds the task {id} if the caller may change it, or returns kInvalid, kNotFound or kDenied.
Result<store::StoredTask> Touchable(store::Store& store, const Call& call);

// Returns kDenied for a priority above 0 unless the caller is an administrator, because the task
// would overtake other users' tasks.
Result<Unit> CheckPriority(std::int64_t priority, const Caller& caller);
// Returns kDenied for --no-slots, unless the class is in slots.exempt or the caller is an
// administrator.
Result<Unit> CheckSlots(const core::TaskRequest& request, const Engine& engine,
                        const Caller& caller);
// Returns kConflict if the edit would let a task that holds GPUs run into someone else's
// reservation of one of them.
Result<Unit> CheckReservations(const core::TaskRecord& record, const core::TaskRequest& edited,
                               const core::Scheduler& core, base::Time now);

// ---- the view of a task, for responses ----

// Whether this caller may see the task's error messages. True for administrators, and for the owner
// if the caller's name is known.
bool SeesErrors(const Caller& caller, const store::TaskOwner& owner);
// The task as a list row, with only what this caller may see.
api::TaskView View(const SharedServices& services, const store::StoredTask& stored,
                   const Caller& caller);
// Shortens a long command for a list row. The response for a single task has the full command.
void Shorten(std::vector<std::string>& command);
void AddStart(const std::map<core::TaskId, core::ExpectedStart>& starts, api::TaskView& view);

}  // namespace carma::daemon
