#include "daemon/http/endpoints/handlers.h"

#include <chrono>

#include "api/token_view.h"
#include "base/json.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/http/endpoints/parameters.h"

namespace carma::daemon {
namespace {

using base::Json;
using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr std::size_t kMaxNameBytes = 60;

api::TokenView View(const Token& token) {
  api::TokenView view;
  view.id = token.id;
  view.uid = token.uid;
  view.user = token.user;
  view.name = token.name;
  view.created_ms = token.created_ms;
  view.expires_ms = token.expires_ms;
  return view;
}

}  // namespace

Answer ShowWho(const ServerServices&, const Call& call) {
  api::WhoView view;
  view.user = call.caller.user;
  if (!view.user.empty()) view.uid = call.caller.uid;
  view.admin = call.caller.admin;
  if (!view.user.empty()) view.by = call.caller.by_token ? "token" : "socket";
  return JsonAnswer(ToJson(view));
}

Answer MakeToken(const ServerServices& server, const Call& call) {
  std::string name;
  std::int64_t life_s = duration_cast<seconds>(Tokens::kUsualLife).count();
  CARMA_TRY(ReadFields(call, [&](base::JsonReader& in) {
    in.Get("name", name, kMaxNameBytes);
    in.Get("expires_s", life_s, 60, duration_cast<seconds>(Tokens::kLongestLife).count());
  }));
  const Tokens::Made made = CARMA_TRY(server.tokens->Make(
      *call.request.peer, call.caller.user, base::Printable(name, kMaxNameBytes), seconds(life_s)));
  LogAsked("token_made", {{"token", made.token.id}}, call.caller);
  api::TokenView view = View(made.token);
  view.token = made.text;
  return JsonAnswer(ToJson(view), 201);
}

Answer ListTokens(const ServerServices& server, const Call& call) {
  QueryReader in(call);
  const bool all = in.Number("all", 0, 0, 1) == 1;
  if (in.error()) return std::unexpected(*in.error());
  if (all) CARMA_TRY(OnlyAdministrators(call.caller, "see all users' tokens"));
  Json tokens = Json::array();
  const std::optional<std::uint32_t> of = all ? std::nullopt : std::optional(call.caller.uid);
  for (const Token& token : server.tokens->List(of)) tokens.push_back(ToJson(View(token)));
  return JsonAnswer({{"tokens", std::move(tokens)}});
}

Answer RevokeToken(const ServerServices& server, const Call& call) {
  const std::optional<std::int64_t> id = base::ParseInt(call.id);
  if (!id || *id < 1) return Invalid("'{}' is not a token number", base::Printable(call.id, 40));
  const std::optional<std::uint32_t> of =
      call.caller.admin ? std::nullopt : std::optional(call.caller.uid);
  CARMA_TRY(server.tokens->Revoke(*id, of));
  LogAsked("token_revoked", {{"token", *id}}, call.caller);
  return JsonAnswer(Json::object());
}

}  // namespace carma::daemon
