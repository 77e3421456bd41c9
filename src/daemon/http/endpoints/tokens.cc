#include "daemon/http/endpoints/tokens.h"

#include <fmt/format.h>

#include <chrono>

#include "api/token_view.h"
#include "base/json.h"
#include "base/text.h"
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
  view.name = token.name;
  view.created_ms = token.created_ms;
  view.expires_ms = token.expires_ms;
  return view;
}

}  // namespace

Answer ShowWho(const TokenServices&, const Call& call) {
  api::WhoView view;
  view.user = call.caller.user;
  if (!view.user.empty()) view.uid = call.caller.uid;
  view.admin = call.caller.admin;
  if (!view.user.empty()) view.by = call.caller.by_token ? "token" : "socket";
  return JsonAnswer(ToJson(view));
}

Answer MakeToken(const TokenServices& services, const Call& call) {
  std::string name;
  std::int64_t life_s = duration_cast<seconds>(Tokens::kUsualLife).count();
  const Result<Unit> read = ReadFields(call, [&](base::JsonReader& in) {
    in.Get("name", name, kMaxNameBytes);
    in.Get("expires_s", life_s, 60, duration_cast<seconds>(Tokens::kLongestLife).count());
  });
  if (!read) return std::unexpected(read.error());
  const Result<Tokens::Made> made = services.tokens.Make(
      *call.request.peer, base::Printable(name, kMaxNameBytes), seconds(life_s));
  if (!made) return std::unexpected(made.error());
  LogAsked("token_made", {{"token", made->token.id}}, call.caller);
  api::TokenView view = View(made->token);
  view.token = made->text;
  return JsonAnswer(ToJson(view), 201);
}

Answer ListTokens(const TokenServices& services, const Call& call) {
  QueryReader in(call);
  const bool all = in.Number("all", 0, 0, 1) == 1;
  if (in.error()) return std::unexpected(*in.error());
  if (all) {
    if (Result<Unit> may = OnlyAdministrators(call.caller, "see the tokens of all users"); !may)
      return std::unexpected(may.error());
  }
  Json tokens = Json::array();
  const std::optional<std::uint32_t> of = all ? std::nullopt : std::optional(call.caller.uid);
  for (const Token& token : services.tokens.List(of)) tokens.push_back(ToJson(View(token)));
  return JsonAnswer({{"tokens", std::move(tokens)}});
}

Answer RevokeToken(const TokenServices& services, const Call& call) {
  const std::optional<std::int64_t> id = base::ParseInt(call.id);
  if (!id || *id < 1) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("'{}' is not the number of a token", base::Printable(call.id, 40)));
  }
  const std::optional<std::uint32_t> of =
      call.caller.admin ? std::nullopt : std::optional(call.caller.uid);
  if (Result<Unit> gone = services.tokens.Revoke(*id, of); !gone)
    return std::unexpected(gone.error());
  LogAsked("token_revoked", {{"token", *id}}, call.caller);
  return JsonAnswer(Json::object());
}

}  // namespace carma::daemon
