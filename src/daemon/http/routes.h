// Routes a request to its endpoint after identifying the caller and checking the caller's
// permissions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "base/result.h"
#include "base/user.h"

namespace carma::daemon {

// The caller, as identified by the kernel and the user database.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string user;    // user name, or UID if there is no name
  bool admin = false;  // root, the daemon's own user, or a user in daemon.admins
  bool by_token = false;
};

// A request as passed to its endpoint.
struct Call {
  api::Request request;
  std::string id;    // the {id} segment of the path
  std::string verb;  // the {verb} segment of the path
  Caller caller;     // not set for kEverybody; may be unknown for kReaders and kWhoever
};

enum class Access {
  kEverybody,  // everybody, including over TCP; read-only
  // Everybody. On the Unix socket, the caller is identified, but the UID may have no user name.
  kReaders,
  kWhoever,  // unknown callers, and known users with more than read access
  // Known users, over the Unix socket or with a token. For actions on the caller's own tasks. A
  // token never grants administrator privileges.
  kOwners,
  kUsers,  // known users, over the Unix socket only
};

// One row of the endpoint table.
struct Endpoint {
  // If the function returns an error, the error is sent as the response. Otherwise the function
  // calls the responder, immediately or later.
  using Handle = std::function<Result<Unit>(const Call&, const api::Responder&)>;

  std::string_view method;
  std::string_view path;  // {id} and {verb} match one segment each
  Access access = Access::kEverybody;
  Handle handle;                // may be empty until the GPUs are known
  std::string_view query = {};  // the names of its parameters: "from_ms to_ms"
};

// Builds a response on a worker and sends it from the loop. `wanted` becomes false when the daemon
// stops. Returns kUnavailable if too many responses are already being built.
using Answer = Result<api::Response>;
using AnswerLater = std::function<Result<Unit>(
    std::function<Answer(const std::atomic<bool>& wanted)> make, std::function<void(Answer)> send)>;

class Routes {
 public:
  // Calls back on the loop, immediately or later. Never blocks. `call` gets kUnavailable if the
  // user database has not responded.
  using AskName =
      std::function<void(std::uint32_t uid, std::function<void(Result<base::KnownUser>)> call)>;
  struct Options {
    std::uint32_t own_uid = 0;        // the daemon's user; 0 to serve all users
    std::vector<std::string> admins;  // user names
    AskName ask_name;
    // Users and groups with more than read access. Root, the daemon's own user and the admins
    // always have it. If both lists are empty, everybody has it.
    std::vector<std::string> allow_users = {};
    std::vector<std::uint32_t> allow_groups = {};
    // Returns the token's owner; empty if the token is unknown.
    std::function<std::optional<api::Peer>(std::string_view token)> find_token = nullptr;
  };

  // table: the first row that matches a path is used. why_not: the error message for endpoints
  // without `handle`. A Routes object may be replaced while requests are in progress.
  Routes(Options options, std::vector<Endpoint> table, std::string why_not = "")
      : options_(std::move(options)), table_(std::move(table)), why_not_(std::move(why_not)) {}

  void Handle(api::Request request, const api::Responder& reply) const;
  // Returns false if the request's endpoint has no `handle` yet.
  bool CanHandle(const api::Request& request) const;

 private:
  // Finds the endpoint and sets Call::id and Call::verb. Returns kNotFound if there is none, and
  // kInvalid for a wrong method or, below /v1, for an unknown parameter.
  Result<const Endpoint*> Find(Call& call) const;
  // The response to a request for which Find() returned an error.
  api::Response Refusal(const base::Error& why, Call& call) const;
  void RefuseStranger(const api::Responder& reply) const;
  // The user as identified by the kernel or by a token. Returns kDenied for an unknown token.
  Result<std::optional<api::Peer>> Identity(const api::Request& request) const;
  void RunForReader(const Endpoint::Handle& handle, Call call, const api::Responder& reply) const;
  void RunForUser(const Endpoint::Handle& handle, Call call, api::Peer who,
                  const api::Responder& reply) const;

  Options options_;
  std::vector<Endpoint> table_;
  std::string why_not_;
};

// Returns kDenied if this user has only read access. name: the name of the user's UID.
Result<Unit> CheckAccess(const Routes::Options& options, const api::Peer& who,
                         const std::string& name);

}  // namespace carma::daemon
