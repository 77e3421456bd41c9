// The table of all API endpoints. Their code is in the folder endpoints/, with one file per
// resource.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/status_view.h"
#include "base/clock.h"
#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/estimates.h"
#include "daemon/engine/queue_snapshots.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/routes.h"
#include "daemon/http/snapshot_answers.h"
#include "daemon/http/tokens.h"
#include "daemon/loop/serial_executor.h"
#include "task/lease/lease_launcher.h"

namespace carma::daemon {

// Services that exist as soon as the daemon has started. They must outlive the endpoints.
struct ServerServices {
  std::function<api::StatusView()> status;
  std::function<std::string()> metrics;  // in the Prometheus format
  Tokens* tokens = nullptr;
};

// Services that exist once the GPUs are known.
struct EngineServices {
  Engine& engine;
  Monitor& monitor;
  store::Store& store;
  const config::Settings& settings;  // the settings in force
  base::Clock& clock;
  task::LeaseLauncher* leases = nullptr;
  estimate::AppraisalRules rules = {};
  std::function<api::StatusView()> status = nullptr;  // as ServerServices::status
  std::function<void()> close_usage = nullptr;        // brings the stored GPU usage up to date
  AnswerLater answer_later = nullptr;
  // Calls `read` on a worker, then `then` on the loop.
  std::function<void(std::function<void()> read, std::function<void()> then)> aside = nullptr;
  // Calls `read` on a thread with a time limit, because the user's disk may hang. Then calls `then`
  // on the loop.
  std::function<void(std::uint32_t uid, std::function<Answer()> read,
                     std::function<void(Answer)> then)>
      read_file = nullptr;
  // Like EstimateService::Ask().
  std::function<void(std::vector<EstimateJob>, EstimateService::Take)> estimate = nullptr;
  // Calls back when the task has ended, or after `seconds` of real time.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_final = nullptr;
  // Calls back when the lease has been granted or has ended, or after `seconds` of real time.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_lease_changes =
      nullptr;
  Routes::AskName ask_name = nullptr;
  // Like CheckAccess(), for a user on whose behalf another user makes the call.
  std::function<Result<Unit>(const api::Peer& who, const std::string& name)> check_access = nullptr;
  // Reads a Slurm job's claim on each node in GiB; empty if the job has none, kUnavailable on
  // failure. Null if Slurm must not be queried.
  using TakeClaim = std::function<void(const Result<std::optional<std::int64_t>>&)>;
  std::function<void(std::uint64_t job, TakeClaim)> ask_claim = nullptr;
  // Returns whether Slurm is requeueing the task's job, in which case the task must not end yet.
  // Null means never.
  std::function<bool(core::TaskId)> holds_job = nullptr;
  // Returns whether the task's job is being moved to another node, in which case it must not start
  // here. Null means never.
  std::function<bool(core::TaskId)> leaves = nullptr;
  AnswerAside from_snapshot = AnswerAtOnce;
  // Like FairTurns::Ask, for calls that occupy the loop for milliseconds. If null, these calls run
  // immediately.
  std::function<void(std::optional<std::uint32_t> user, std::function<void()> work)> in_turn =
      nullptr;
  // Handles large bodies one at a time, from reading to response, because each may need hundreds of
  // MiB.
  std::shared_ptr<SerialExecutor> large = std::make_shared<SerialExecutor>();
  // Snapshots for lists in queue order. All pages of a list use the same snapshot.
  std::shared_ptr<QueueSnapshots> lines = std::make_shared<QueueSnapshots>();
};
// Shared, because a delayed response may outlive the endpoint that handled the request.
using SharedServices = std::shared_ptr<const EngineServices>;

// engine: null until the GPUs are known. Until then most endpoints have no handler.
std::vector<Endpoint> Endpoints(const ServerServices& server,
                                const SharedServices& engine = nullptr);

}  // namespace carma::daemon
