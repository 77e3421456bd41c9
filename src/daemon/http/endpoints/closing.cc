#include "daemon/http/endpoints/handlers.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"

namespace carma::daemon {
namespace {

Engine::Done AnswerWithStatus(const SharedServices& services, std::string_view event,
                              std::vector<base::Field> fields, const Caller& caller,
                              const api::Responder& reply) {
  return [status = services->status, event, fields = std::move(fields), caller,
          reply](const Result<Unit>& done) {
    LogAsked(event, fields, caller, done);
    if (!done) return reply(std::unexpected(done.error()));
    reply(JsonAnswer(ToJson(status())));
  };
}

Result<Unit> MayClose(const Call& call) {
  return OnlyAdministrators(call.caller, "close and reopen the server");
}

}  // namespace

Result<Unit> CloseServer(const SharedServices& services, const Call& call,
                         const api::Responder& reply) {
  CARMA_TRY(MayClose(call));
  const base::Time now = services->clock.Now();
  const DrainAsked asked = CARMA_TRY(ReadDrain(call, now));
  core::ServerClosed closing;
  closing.why = fmt::format("closed by {} until the machine reboots", call.caller.user);
  if (!asked.why.empty()) closing.why += ": " + base::Printable(asked.why, 500);
  closing.empty_by = asked.empty_by.value_or(now + services->settings.policy.slots.shutdown_notice);
  std::vector<base::Field> fields = {{"empty_by", base::FormatTimeIso(closing.empty_by)}};
  if (!asked.why.empty()) fields.emplace_back("why", asked.why);
  services->engine.Close(
      closing, AnswerWithStatus(services, "server_drain", std::move(fields), call.caller, reply));
  return Unit{};
}

Result<Unit> OpenServer(const SharedServices& services, const Call& call,
                        const api::Responder& reply) {
  CARMA_TRY(MayClose(call));
  services->engine.Open(AnswerWithStatus(services, "server_resume", {}, call.caller, reply));
  return Unit{};
}

}  // namespace carma::daemon
