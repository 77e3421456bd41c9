// Tasks that were submitted: lists, one of them, why it waits, changes to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/queue_snapshots.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/routes.h"
#include "daemon/http/snapshot_answers.h"

namespace carma::daemon {

struct TaskServices {
  Engine& engine;
  const Monitor& monitor;
  store::Store& store;
  base::Clock& clock;
  const config::Settings& settings;  // the rules in force, for /explain
  // As EngineServices::when_final.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_final;
  // Of lists in order of turns; of one page and the next, so shared.
  std::shared_ptr<QueueSnapshots> lines = std::make_shared<QueueSnapshots>();
  AnswerAside from_snapshot = AnswerAtOnce;
};

// ?state=queued,running or all, &user= &name= &limit= &before= &order=desc, asc or turn. By default
// the newest hundred of those that have not ended.
base::Result<base::Unit> ListTasks(const TaskServices& services, const Call& call,
                                   const api::Responder& reply);
// ?wait_s=: answers when the task has ended, or after so long.
base::Result<base::Unit> ShowTask(const TaskServices& services, const Call& call,
                                  const api::Responder& reply);
base::Result<base::Unit> ExplainTask(const TaskServices& services, const Call& call,
                                     const api::Responder& reply);
// As it was described. A description holds its user's environment: for the owner and
// administrators only.
Answer ShowSpec(const TaskServices& services, const Call& call);
// Both answer with the task as it is once the change is durable; for the owner and administrators.
base::Result<base::Unit> ChangeTask(const TaskServices& services, const Call& call,
                                    const api::Responder& reply);
base::Result<base::Unit> SetPriority(const TaskServices& services, const Call& call,
                                     const api::Responder& reply);
// Takes {"verb":"cancel","tasks":[3,4]}: one change of ChangeTask for up to api::kMostChanges tasks
// in one turn. Answers once it is durable for all: a task that is not the caller's, or not in a
// state for it, is told and holds up no other.
base::Result<base::Unit> ChangeTasks(const TaskServices& services, const Call& call,
                                     const api::Responder& reply);

// Takes {"time_limit_s": 7200, …}, fields of a description of which null takes one back; answers
// with the task once that is durable. For the owner and administrators; whom it tells is the
// owner's to say.
base::Result<base::Unit> EditTask(const TaskServices& services, const Call& call,
                                  const api::Responder& reply);

// Whether it is an object of fields that EditTask and RedoTask take of this caller. Errors:
// kInvalid; kDenied: whom a task tells may be a program, which runs with its owner's rights.
base::Result<base::Unit> CheckEditable(const nlohmann::json& changes, const Caller& caller,
                                       std::uint32_t owner);

// The task of {id}, if this caller may change it. Errors: kInvalid, kNotFound, kDenied.
base::Result<store::StoredTask> Touchable(store::Store& store, const Call& call);

// Above the ordinary, a task passes those of others: not for everybody to decide.
base::Result<base::Unit> CheckPriority(std::int64_t priority, const Caller& caller);
// --no-slots is for tasks of the classes that the rules except, and for administrators. Errors:
// kDenied.
base::Result<base::Unit> CheckSlots(const core::TaskRequest& request, const core::SlotRules& rules,
                                    const Caller& caller);

}  // namespace carma::daemon
