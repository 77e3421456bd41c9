#include <utility>

#include "daemon/http/endpoints.h"
#include "daemon/http/endpoints/handlers.h"
#include "daemon/http/endpoints/page.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {
namespace {

template <class Services>
using Now = Answer (*)(const Services&, const Call&);
template <class Services>
using Later = Result<Unit> (*)(const Services&, const Call&, const api::Responder&);

template <class Services>
Endpoint::Handle With(const Services& services, Now<Services> answer) {
  return [services, answer](const Call& call, const api::Responder& reply) {
    reply(answer(services, call));
    return Result<Unit>();
  };
}

template <class Services>
Endpoint::Handle With(const Services& services, Later<Services> answer) {
  return [services, answer](const Call& call, const api::Responder& reply) {
    return answer(services, call, reply);
  };
}

// Runs each user's calls one after another, so that many calls by one user do not delay other
// users.
Endpoint::Handle InTurn(const SharedServices& engine, Endpoint::Handle handle) {
  if (!engine || !engine->in_turn || !handle) return handle;
  return [in_turn = engine->in_turn, handle = std::move(handle)](const Call& call,
                                                                 const api::Responder& reply) {
    in_turn(AskerOf(call), [handle, call, reply] {
      if (const Result<Unit> begun = handle(call, reply); !begun)
        reply(std::unexpected(begun.error()));
    });
    return Result<Unit>();
  };
}

}  // namespace

// A row with a literal segment must come before any row with a {verb} that matches the segment.
std::vector<Endpoint> Endpoints(const ServerServices& server, const SharedServices& engine) {
  using enum Access;
  const PageServices page(server.status, engine);
  // Endpoints that need the engine or the tokens have no handler until those exist.
  const auto on = [&](auto answer) { return engine ? With(engine, answer) : Endpoint::Handle(); };
  const auto tokens = [&](auto answer) {
    return server.tokens != nullptr ? With(server, answer) : Endpoint::Handle();
  };
  return {
      {"GET", "/", kEverybody, With(page, &ShowPage)},
      {"GET", "/page/{id}", kEverybody, With(page, &ShowPageFile)},
      {"GET", "/v1/overview", kEverybody, With(page, &ShowOverview)},
      {"GET", "/v1/users", kEverybody, engine ? With(page, &ListUsers) : nullptr},
      {"GET", "/v1/status", kEverybody, With(server, &ShowStatus)},
      {"GET", "/v1/openapi.json", kEverybody, With(server, &ShowOpenApi)},
      {"GET", "/metrics", kEverybody, InTurn(engine, With(server, &ShowMetrics))},
      {"GET", "/metrics/tasks", kEverybody, InTurn(engine, on(&ShowTaskMetrics))},
      {"POST", "/v1/tasks", kUsers, on(&SubmitTasks), "check"},
      {"GET", "/v1/tasks", kReaders, on(&ListTasks),
       "state user name account qos limit before order"},
      {"GET", "/v1/tasks/{id}", kReaders, on(&ShowTask), "wait_s"},
      {"GET", "/v1/tasks/{id}/explain", kReaders, on(&ExplainTask)},
      {"GET", "/v1/tasks/{id}/spec", kUsers, on(&ShowSpec)},
      {"GET", "/v1/tasks/{id}/output", kOwners, on(&ShowOutput), "stream bytes"},
      {"PATCH", "/v1/tasks/{id}", kUsers, on(&EditTask)},
      {"POST", "/v1/changes", kOwners, InTurn(engine, on(&ChangeTasks))},
      {"POST", "/v1/tasks/{id}/priority", kOwners, on(&SetPriority)},
      {"POST", "/v1/tasks/{id}/redo", kUsers, on(&RedoTask)},
      {"POST", "/v1/tasks/{id}/{verb}", kOwners, on(&ChangeTask)},
      {"GET", "/v1/gpus", kEverybody, on(&ListGpus)},
      {"GET", "/v1/gpus/history.html", kEverybody, InTurn(engine, on(&DrawGpuHistory)),
       "from_ms to_ms points utc_offset_min"},
      {"GET", "/v1/gpus/{id}/history", kEverybody, InTurn(engine, on(&ShowGpuHistory)),
       "from_ms to_ms points"},
      {"POST", "/v1/gpus/{id}/drain", kUsers, on(&DrainGpu)},
      {"POST", "/v1/gpus/{id}/resume", kUsers, on(&ResumeGpu)},
      {"POST", "/v1/server/drain", kUsers, on(&CloseServer)},
      {"POST", "/v1/server/resume", kUsers, on(&OpenServer)},
      {"GET", "/v1/reservations", kEverybody, on(&ListReservations)},
      {"POST", "/v1/reservations", kUsers, on(&MakeReservation)},
      {"POST", "/v1/reservations/{id}/remove", kUsers, on(&RemoveReservation)},
      {"POST", "/v1/leases", kUsers, on(&MakeLease)},
      {"GET", "/v1/leases", kEverybody, InTurn(engine, on(&ListLeases)), "job"},
      {"GET", "/v1/leases/{id}", kUsers, on(&ShowLease), "wait_s"},
      {"POST", "/v1/leases/{id}/adopt", kUsers, on(&AdoptLease)},
      {"POST", "/v1/leases/{id}/end", kUsers, on(&EndLease)},
      {"GET", "/v1/whoami", kWhoever, tokens(&ShowWho)},
      {"GET", "/v1/tokens", kUsers, tokens(&ListTokens), "all"},
      {"POST", "/v1/tokens", kUsers, tokens(&MakeToken)},
      {"POST", "/v1/tokens/{id}/revoke", kUsers, tokens(&RevokeToken)},
      {"GET", "/v1/estimate", kEverybody, on(&ShowKnowledge), "signature kin gpu_type"},
      {"POST", "/v1/estimate/reset", kUsers, on(&ForgetCalibration)},
      {"GET", "/v1/events", kReaders, InTurn(engine, on(&ListEvents)), "task after limit"},
      {"GET", "/v1/report", kEverybody, InTurn(engine, on(&MakeReport)),
       "after_ms until_ms last run utc_offset_min"},
      {"GET", "/v1/report.html", kEverybody, InTurn(engine, on(&DrawReport)),
       "after_ms until_ms last run utc_offset_min"},
      {"GET", "/v1/usage", kEverybody, InTurn(engine, on(&TellUsage)), "by after_ms until_ms"},
  };
}

}  // namespace carma::daemon
