// Routes a request to its endpoint: finds the endpoint, identifies the caller and checks the
// caller's rights.
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
  std::string user;    // user name, or user id if there is no name
  bool admin = false;  // root, the daemon's own user, or a user of daemon.admins
  bool by_token = false;
};

// A request as its endpoint sees it.
struct Call {
  api::Request request;
  std::string id;    // the segment {id} of the path
  std::string verb;  // the segment {verb} of the path
  Caller caller;     // not set for kEverybody; may be unknown for kReaders and kWhoever
};

enum class Access {
  kEverybody,  // everybody, over TCP too; for reading
  // Everybody; a caller on the Unix socket is identified, without a name if none is found.
  kReaders,
  kWhoever,  // everybody; the caller is identified if known
  // Known users, over the Unix socket or by token, for actions on the caller's own tasks. A token
  // never gives the rights of an administrator.
  kOwners,
  kUsers,  // known users, over the Unix socket only
};

// One row of the endpoint table.
struct Endpoint {
  // A returned error is sent as the answer. Otherwise the handler calls the responder, now or
  // later.
  using Handle = std::function<Result<Unit>(const Call&, const api::Responder&)>;

  std::string_view method;
  std::string_view path;  // {id} and {verb} match one segment each
  Access access = Access::kEverybody;
  Handle handle;                // empty until the GPUs are known
  std::string_view query = {};  // the names of its parameters: "from_ms to_ms"
};

// Makes an answer on a worker's thread, then sends it from the loop. `wanted` becomes false when
// the daemon stops. Errors: kUnavailable if too many such answers are being made.
using Answer = Result<api::Response>;
using AnswerLater = std::function<Result<Unit>(
    std::function<Answer(const std::atomic<bool>& wanted)> make, std::function<void(Answer)> send)>;

class Routes {
 public:
  // Calls back on the loop, now or later; never blocks. Errors: kUnavailable if the name is
  // unknown.
  using AskName =
      std::function<void(std::uint32_t uid, std::function<void(Result<base::KnownUser>)> call)>;
  struct Options {
    std::uint32_t own_uid = 0;        // the daemon's user; 0: serves all users
    std::vector<std::string> admins;  // user names
    AskName ask_name;
    // Only these users and members of these groups, root, the daemon's own user and the admins may
    // do more than read. If both lists are empty, everybody may.
    std::vector<std::string> allow_users = {};
    std::vector<std::uint32_t> allow_groups = {};
    // Returns the owner of a token; empty if the token is unknown.
    std::function<std::optional<api::Peer>(std::string_view token)> find_token = nullptr;
  };

  // table: if two rows match a path, the first is used. why_not: the error message of endpoints
  // without `handle`. An object of this class may be replaced while requests are in progress.
  Routes(Options options, std::vector<Endpoint> table, std::string why_not = "")
      : options_(std::move(options)), table_(std::move(table)), why_not_(std::move(why_not)) {}

  void Handle(api::Request request, const api::Responder& reply) const;
  // Returns false if the endpoint of the request has no `handle` yet.
  bool CanHandle(const api::Request& request) const;

 private:
  // Finds the endpoint and sets Call::id and Call::verb. Errors: kNotFound; kInvalid for another
  // method or, below /v1, an unknown parameter.
  Result<const Endpoint*> Find(Call& call) const;
  // The answer to a request that Find() refused.
  api::Response Refusal(const base::Error& why, Call& call) const;
  void RefuseStranger(const api::Responder& reply) const;
  // The user identified by the kernel or a token. Errors: kDenied for an unknown token.
  Result<std::optional<api::Peer>> Identity(const api::Request& request) const;
  void RunForReader(const Endpoint::Handle& handle, Call call, const api::Responder& reply) const;
  void RunForUser(const Endpoint::Handle& handle, Call call, api::Peer who,
                  const api::Responder& reply) const;

  Options options_;
  std::vector<Endpoint> table_;
  std::string why_not_;
};

}  // namespace carma::daemon
