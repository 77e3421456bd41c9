#include "daemon/http/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/suggest.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

bool Matches(std::string_view pattern, Call& call) {
  const std::vector<std::string_view> wanted = base::Split(pattern, '/'),
                                      given = base::Split(call.request.path, '/');
  if (wanted.size() != given.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == "{id}") {
      call.id = given[i];
    } else if (wanted[i] == "{verb}") {
      call.verb = given[i];
    } else if (wanted[i] != given[i]) {
      return false;
    }
  }
  return true;
}

bool Contains(const auto& list, const auto& value) {
  return std::ranges::find(list, value) != list.end();
}

// Ignores unknown parameters of pages and metrics (outside /v1), because other programs may add
// parameters to a URL.
Result<Unit> CheckQuery(const Endpoint& endpoint, const api::Request& request) {
  if (!request.path.starts_with("/v1/")) return Unit{};
  std::vector<std::string> known;
  for (const std::string_view each : base::SplitWords(endpoint.query)) known.emplace_back(each);
  for (const auto& [name, value] : request.query) {
    if (std::ranges::count(request.query, name, [](const auto& each) { return each.first; }) > 1)
      return Invalid("parameter '{}' is given more than once", base::Printable(name, 40));
    if (Contains(known, name)) continue;
    return Invalid("no parameter '{}'{} (expected {})", base::Printable(name, 40),
                   base::Suggestion(name, known), known.empty() ? "none" : base::Join(known, ", "));
  }
  return Unit{};
}

bool IsAllowed(const Routes::Options& options, const api::Peer& peer, const std::string& name) {
  if (options.allow_users.empty() && options.allow_groups.empty()) return true;
  return Contains(options.allow_users, name) || Contains(options.allow_groups, peer.gid) ||
         std::ranges::any_of(peer.groups, [&](std::uint32_t group) {
           return Contains(options.allow_groups, group);
         });
}

bool IsAdmin(const Routes::Options& options, std::uint32_t uid, const std::string& name) {
  return uid == 0 || uid == options.own_uid || Contains(options.admins, name);
}

void Run(const Endpoint::Handle& handle, const Call& call, const api::Responder& reply) {
  if (const Result<Unit> begun = handle(call, reply); !begun) reply(std::unexpected(begun.error()));
}

}  // namespace

Result<Unit> CheckAccess(const Routes::Options& options, const api::Peer& who,
                         const std::string& name) {
  // UIDs without a name are refused, because one user may have thousands of them (subuid), each
  // with its own limits.
  if (name == fmt::format("{}", who.uid) && who.uid != 0 && who.uid != options.own_uid)
    return Denied("UID {} has no user name on this server, so it has read-only access", who.uid);
  if (IsAdmin(options, who.uid, name) || IsAllowed(options, who, name)) return Unit{};
  return Denied(
      "{} has read-only access to this server; administrators can grant more with "
      "daemon.allow_users or daemon.allow_groups",
      base::Printable(name, 60));
}

Result<const Endpoint*> Routes::Find(Call& call) const {
  bool path_known = false;
  for (const Endpoint& endpoint : table_) {
    if (!Matches(endpoint.path, call)) continue;
    path_known = true;
    if (endpoint.method != call.request.method) continue;
    if (Result<Unit> known = CheckQuery(endpoint, call.request); !known)
      return std::unexpected(known.error());
    return &endpoint;
  }
  return Fail(path_known ? ErrorCode::kInvalid : ErrorCode::kNotFound,
              fmt::format("{} {}: {}", base::Printable(call.request.method, 20),
                          base::Printable(call.request.path),
                          path_known ? "this method is not supported" : "no such endpoint"));
}

// Responds with 405 and the allowed methods if the path exists but does not support this method.
api::Response Routes::Refusal(const base::Error& why, Call& call) const {
  std::vector<std::string> methods;
  for (const Endpoint& each : table_) {
    if (Matches(each.path, call) && !Contains(methods, each.method))
      methods.emplace_back(each.method);
  }
  api::Response response = api::ErrorResponse(why);
  if (methods.empty() || Contains(methods, call.request.method)) return response;
  response.status = 405;
  response.headers.emplace_back("Allow", base::Join(methods, ", "));
  return response;
}

Result<std::optional<api::Peer>> Routes::Identity(const api::Request& request) const {
  if (request.peer || !request.bearer_token) return request.peer;
  std::optional<api::Peer> owner;
  if (options_.find_token) owner = options_.find_token(*request.bearer_token);
  if (!owner) return Denied("the token is unknown, revoked or expired");
  return owner;
}

void Routes::Handle(api::Request request, const api::Responder& reply) const {
  Call call{std::move(request), "", "", {}};
  const Result<const Endpoint*> endpoint = Find(call);
  if (!endpoint) return reply(Refusal(endpoint.error(), call));
  const Access access = (*endpoint)->access;
  const std::optional<api::Peer>& peer = call.request.peer;
  // Without root privileges every task would run as the daemon's user, so requests from other users
  // are refused.
  if (peer && options_.own_uid != 0 && peer->uid != options_.own_uid && peer->uid != 0)
    return RefuseStranger(reply);
  if (access == Access::kEverybody || access == Access::kReaders) {
    if (!(*endpoint)->handle) return reply(Unavailable(why_not_));
    if (access == Access::kReaders && peer)
      return RunForReader((*endpoint)->handle, std::move(call), reply);
    return Run((*endpoint)->handle, call, reply);
  }
  if (access == Access::kUsers && !peer)
    return reply(Denied("access over TCP is read-only; use the Unix socket"));
  const Result<std::optional<api::Peer>> who = Identity(call.request);
  if (!who) return reply(std::unexpected(who.error()));
  if (access == Access::kOwners && !*who) {
    return reply(Denied(
        "access over TCP is read-only; use the Unix socket or a token ('carma token create')"));
  }
  if (!(*endpoint)->handle) return reply(Unavailable(why_not_));
  if (!*who) return Run((*endpoint)->handle, call, reply);
  RunForUser((*endpoint)->handle, std::move(call), **who, reply);
}

void Routes::RefuseStranger(const api::Responder& reply) const {
  options_.ask_name(options_.own_uid,
                    [reply, uid = options_.own_uid](const Result<base::KnownUser>& known) {
                      reply(Denied("this carmad is not running as root and serves only {}",
                                   known ? known->name : fmt::format("user {}", uid)));
                    });
}

bool Routes::CanHandle(const api::Request& request) const {
  Call call{request, "", "", {}};
  const Result<const Endpoint*> endpoint = Find(call);
  return !endpoint || (*endpoint)->handle;
}

// The callbacks hold copies, because this object may be replaced before they are called.
void Routes::RunForReader(const Endpoint::Handle& handle, Call call,
                          const api::Responder& reply) const {
  const std::uint32_t uid = call.request.peer->uid;
  options_.ask_name(uid, [options = options_, handle, reply, uid,
                          call = std::move(call)](const Result<base::KnownUser>& known) mutable {
    const std::string name = known ? known->name : "";
    call.caller = {uid, call.request.peer->gid, name, IsAdmin(options, uid, name)};
    Run(handle, call, reply);
  });
}

void Routes::RunForUser(const Endpoint::Handle& handle, Call call, api::Peer who,
                        const api::Responder& reply) const {
  options_.ask_name(who.uid, [options = options_, handle, reply, who = std::move(who),
                              call = std::move(call)](Result<base::KnownUser> known) mutable {
    if (!known) return reply(std::unexpected(known.error()));
    const std::string& name = known->name;
    const bool by_token = !call.request.peer;
    if (by_token) {
      if (!who.token_of.empty() && who.token_of != name)
        return reply(Denied("the token belongs to {}, but UID {} now has a different name",
                            who.token_of, who.uid));
      who.groups = known->groups;
      if (!who.groups.empty()) who.gid = known->gid;
    }
    if (const Result<Unit> allowed = CheckAccess(options, who, name); !allowed)
      return reply(std::unexpected(allowed.error()));
    const bool admin = IsAdmin(options, who.uid, name);
    call.caller = {who.uid, who.gid, std::move(known->name), admin && !by_token, by_token};
    Run(handle, call, reply);
  });
}

}  // namespace carma::daemon
