#include <fmt/format.h>

#include <optional>
#include <utility>

#include "daemon/http/endpoints.h"
#include "daemon/http/endpoints/closing.h"
#include "daemon/http/endpoints/estimates.h"
#include "daemon/http/endpoints/gpus.h"
#include "daemon/http/endpoints/leases.h"
#include "daemon/http/endpoints/output.h"
#include "daemon/http/endpoints/page.h"
#include "daemon/http/endpoints/past.h"
#include "daemon/http/endpoints/reservations.h"
#include "daemon/http/endpoints/server.h"
#include "daemon/http/endpoints/submit.h"
#include "daemon/http/endpoints/tasks.h"
#include "daemon/http/endpoints/tokens.h"

namespace carma::daemon {
namespace {

template <class Services>
using Now = Answer (*)(const Services&, const Call&);
template <class Services>
using Later = Result<Unit> (*)(const Services&, const Call&, const api::Responder&);

// Returns no handler while `services` is empty.
template <class Services>
Endpoint::Handle With(const std::optional<Services>& services, Now<Services> answer) {
  if (!services) return nullptr;
  return [services = *services, answer](const Call& call, const api::Responder& reply) {
    reply(answer(services, call));
    return Result<Unit>();
  };
}

template <class Services>
Endpoint::Handle With(const std::optional<Services>& services, Later<Services> answer) {
  if (!services) return nullptr;
  return [services = *services, answer](const Call& call, const api::Responder& reply) {
    return answer(services, call, reply);
  };
}

// Runs the calls of one user one after another, so that many calls do not delay other users.
Endpoint::Handle InTurn(const EngineServices* engine, Endpoint::Handle handle) {
  if (engine == nullptr || !engine->in_turn || !handle) return handle;
  return [in_turn = engine->in_turn, handle = std::move(handle)](const Call& call,
                                                                 const api::Responder& reply) {
    in_turn(AskerOf(call), [handle, call, reply] {
      if (const Result<Unit> begun = handle(call, reply); !begun)
        reply(std::unexpected(begun.error()));
    });
    return Result<Unit>();
  };
}

// The services of each resource.
struct Resources {
  Resources(const ServerServices& all, const EngineServices* engine) : server(all) {
    if (all.tokens != nullptr) tokens.emplace(TokenServices{*all.tokens});
    std::optional<ShownServer> shown;
    if (engine != nullptr) {
      Fill(*engine);
      shown.emplace(ShownServer{engine->engine, engine->monitor, engine->clock,
                                !engine->settings.simgpu_state.empty()});
    }
    page.emplace(all.status, shown);
    if (engine != nullptr) users = page;
  }
  void Fill(const EngineServices& all) {
    const config::Settings& settings = all.settings;
    const auto ask = [&service = all.estimates](std::vector<EstimateJob> jobs,
                                                EstimateService::Take take) {
      service.Ask(std::move(jobs), std::move(take));
    };
    const auto provenance = [status = server->status] {
      const api::StatusView now = status();
      return fmt::format("carmad {}: {}; {}", now.version, now.policy, now.collocation);
    };
    submit.emplace(SubmitServices{all.engine, all.clock, settings.max_batch, all.aside,
                                  std::make_shared<SerialExecutor>(), ask, all.from_snapshot});
    tasks.emplace(TaskServices{all.engine, all.monitor, all.store, all.clock, settings,
                               all.when_final, std::make_shared<QueueSnapshots>(),
                               all.from_snapshot});
    gpus.emplace(GpuServices{all.engine, all.monitor, all.store, all.clock, settings.state_dir,
                             settings.sample_period, all.answer_later});
    closing.emplace(ClosingServices{all.engine, all.clock, settings, server->status});
    reservations.emplace(ReservationServices{all.engine, all.clock, settings.reservation_makers});
    estimates.emplace(EstimateServices{all.engine, all.estimates.rules()});
    past.emplace(PastServices{all.store, all.monitor, all.clock, settings.state_dir,
                              !settings.simgpu_state.empty(), provenance, all.close_usage,
                              all.answer_later,
                              [&engine = all.engine] { return engine.RunningAttempts(); }});
    output.emplace(OutputServices{all.store, all.read_file});
    leases.emplace(LeaseServices{all.engine, all.store, all.clock, all.leases,
                                 all.when_lease_changes, all.ask_name, all.ask_claim, all.holds_job,
                                 all.leaves});
  }
  std::optional<ServerServices> server;
  std::optional<SubmitServices> submit;
  std::optional<TaskServices> tasks;
  std::optional<GpuServices> gpus;
  std::optional<ClosingServices> closing;
  std::optional<ReservationServices> reservations;
  std::optional<EstimateServices> estimates;
  std::optional<PastServices> past;
  std::optional<OutputServices> output;
  std::optional<LeaseServices> leases;
  std::optional<TokenServices> tokens;
  std::optional<PageServices> page;
  std::optional<PageServices> users;  // set once the GPUs are known
};

}  // namespace

// A row with a literal segment comes before a row whose {verb} would match it too.
std::vector<Endpoint> Endpoints(const ServerServices& server, const EngineServices* engine) {
  using enum Access;
  const Resources on(server, engine);
  return {
      {"GET", "/", kEverybody, With(on.page, &ShowPage)},
      {"GET", "/page/{id}", kEverybody, With(on.page, &ShowPageFile)},
      {"GET", "/v1/overview", kEverybody, With(on.page, &ShowOverview)},
      {"GET", "/v1/users", kEverybody, With(on.users, &ListUsers)},
      {"GET", "/v1/status", kEverybody, With(on.server, &ShowStatus)},
      {"GET", "/v1/openapi.json", kEverybody, With(on.server, &ShowOpenApi)},
      {"GET", "/metrics", kEverybody, InTurn(engine, With(on.server, &ShowMetrics))},
      {"GET", "/metrics/tasks", kEverybody, InTurn(engine, With(on.gpus, &ShowTaskMetrics))},
      {"POST", "/v1/tasks", kUsers, With(on.submit, &SubmitTasks), "check"},
      {"GET", "/v1/tasks", kReaders, With(on.tasks, &ListTasks),
       "state user name account qos limit before order"},
      {"GET", "/v1/tasks/{id}", kReaders, With(on.tasks, &ShowTask), "wait_s"},
      {"GET", "/v1/tasks/{id}/explain", kReaders, With(on.tasks, &ExplainTask)},
      {"GET", "/v1/tasks/{id}/spec", kUsers, With(on.tasks, &ShowSpec)},
      {"GET", "/v1/tasks/{id}/output", kOwners, With(on.output, &ShowOutput), "stream bytes"},
      {"PATCH", "/v1/tasks/{id}", kUsers, With(on.tasks, &EditTask)},
      {"POST", "/v1/changes", kOwners, InTurn(engine, With(on.tasks, &ChangeTasks))},
      {"POST", "/v1/tasks/{id}/priority", kOwners, With(on.tasks, &SetPriority)},
      {"POST", "/v1/tasks/{id}/redo", kUsers, With(on.submit, &RedoTask)},
      {"POST", "/v1/tasks/{id}/{verb}", kOwners, With(on.tasks, &ChangeTask)},
      {"GET", "/v1/gpus", kEverybody, With(on.gpus, &ListGpus)},
      {"GET", "/v1/gpus/history.html", kEverybody, InTurn(engine, With(on.gpus, &DrawGpuHistory)),
       "from_ms to_ms points utc_offset_min"},
      {"GET", "/v1/gpus/{id}/history", kEverybody, InTurn(engine, With(on.gpus, &ShowGpuHistory)),
       "from_ms to_ms points"},
      {"POST", "/v1/gpus/{id}/drain", kUsers, With(on.gpus, &DrainGpu)},
      {"POST", "/v1/gpus/{id}/resume", kUsers, With(on.gpus, &ResumeGpu)},
      {"POST", "/v1/server/drain", kUsers, With(on.closing, &CloseServer)},
      {"POST", "/v1/server/resume", kUsers, With(on.closing, &OpenServer)},
      {"GET", "/v1/reservations", kEverybody, With(on.reservations, &ListReservations)},
      {"POST", "/v1/reservations", kUsers, With(on.reservations, &MakeReservation)},
      {"POST", "/v1/reservations/{id}/remove", kUsers, With(on.reservations, &RemoveReservation)},
      {"POST", "/v1/leases", kUsers, With(on.leases, &MakeLease)},
      {"GET", "/v1/leases", kEverybody, With(on.leases, &ListLeases), "job"},
      {"GET", "/v1/leases/{id}", kUsers, With(on.leases, &ShowLease), "wait_s"},
      {"POST", "/v1/leases/{id}/adopt", kUsers, With(on.leases, &AdoptLease)},
      {"POST", "/v1/leases/{id}/end", kUsers, With(on.leases, &EndLease)},
      {"GET", "/v1/whoami", kWhoever, With(on.tokens, &ShowWho)},
      {"GET", "/v1/tokens", kUsers, With(on.tokens, &ListTokens), "all"},
      {"POST", "/v1/tokens", kUsers, With(on.tokens, &MakeToken)},
      {"POST", "/v1/tokens/{id}/revoke", kUsers, With(on.tokens, &RevokeToken)},
      {"GET", "/v1/estimate", kEverybody, With(on.estimates, &ShowKnowledge),
       "signature kin gpu_type"},
      {"POST", "/v1/estimate/reset", kUsers, With(on.estimates, &ForgetCalibration)},
      {"GET", "/v1/events", kReaders, InTurn(engine, With(on.past, &ListEvents)),
       "task after limit"},
      {"GET", "/v1/report", kEverybody, InTurn(engine, With(on.past, &MakeReport)),
       "after_ms until_ms last run utc_offset_min"},
      {"GET", "/v1/report.html", kEverybody, InTurn(engine, With(on.past, &DrawReport)),
       "after_ms until_ms last run utc_offset_min"},
      {"GET", "/v1/usage", kEverybody, InTurn(engine, With(on.past, &TellUsage)),
       "by after_ms until_ms"},
  };
}

}  // namespace carma::daemon
