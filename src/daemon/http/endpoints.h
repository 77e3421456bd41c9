// The table of all endpoints of the API. Their code is in endpoints/, in one file for each
// resource.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/status_view.h"
#include "base/clock.h"
#include "config/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/estimates.h"
#include "daemon/gpus/monitor.h"
#include "daemon/http/routes.h"
#include "daemon/http/snapshot_answers.h"
#include "daemon/http/tokens.h"
#include "task/lease/lease_launcher.h"

namespace carma::daemon {

// Services that exist from the beginning. They must outlive the endpoints.
struct ServerServices {
  std::function<api::StatusView()> status;
  std::function<std::string()> metrics;  // in Prometheus' format
  Tokens* tokens = nullptr;
};

// Services that exist once the GPUs are known.
struct EngineServices {
  Engine& engine;
  Monitor& monitor;
  EstimateService& estimates;
  store::Store& store;
  const config::Settings& settings;
  base::Clock& clock;
  std::function<void()> close_usage;  // brings the stored GPU use up to date
  AnswerLater answer_later;
  // As SubmitServices::aside.
  std::function<void(std::function<void()> read, std::function<void()> then)> aside;
  // Calls back once the task is final, or after `seconds` of real time.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_final;
  // As OutputServices::aside.
  std::function<void(std::function<Answer()> read, std::function<void(Answer)> then)> read_file;
  task::LeaseLauncher& leases;
  // As LeaseServices::when_changed.
  std::function<void(core::TaskId, int seconds, std::function<void()>)> when_lease_changes;
  Routes::AskName ask_name;
  // As LeaseServices::ask_claim.
  std::function<void(std::uint64_t job,
                     std::function<void(const Result<std::optional<std::int64_t>>&)>)>
      ask_claim = nullptr;
  std::function<bool(core::TaskId)> holds_job = nullptr;  // LeaseServices
  std::function<bool(core::TaskId)> leaves = nullptr;     // LeaseServices
  AnswerAside from_snapshot = AnswerAtOnce;
  // Like FairTurns::Ask, for calls that take the loop for milliseconds. Null: they run at once.
  std::function<void(std::optional<std::uint32_t> user, std::function<void()> work)> in_turn =
      nullptr;
};

// engine: null until the GPUs are known. Until then most endpoints have no handler.
std::vector<Endpoint> Endpoints(const ServerServices& server,
                                const EngineServices* engine = nullptr);

}  // namespace carma::daemon
