// Routes a request to its endpoint: finds it, identifies the caller, checks the rights.
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
  std::string user;    // name, or number if it has none
  bool admin = false;  // root, the daemon's own user, one of daemon.admins
  bool by_token = false;
};

// A request as its endpoint sees it.
struct Call {
  api::Request request;
  std::string id;    // {id} of the path
  std::string verb;  // {verb} of the path
  Caller caller;     // except for kEverybody; may be unknown for kReaders and kWhoever
};

enum class Access {
  kEverybody,  // over TCP too: reading
  kReaders,    // the same, with the caller of the Unix socket; without a name if none is found
  kWhoever,    // the same, with the caller if known
  kOwners,     // known users: over the Unix socket or by token; for what a user
               // may do with the caller's own tasks. A token never makes an administrator
  kUsers,      // known users: over the Unix socket
};

// One row of the endpoint table.
struct Endpoint {
  // An error is sent as the answer; otherwise the responder answers, now or later.
  using Handle = std::function<Result<Unit>(const Call&, const api::Responder&)>;

  std::string_view method;
  std::string_view path;  // {id} and {verb} match one segment each
  Access access = Access::kEverybody;
  Handle handle;                // empty: only once the GPUs are known
  std::string_view query = {};  // its parameters, "from_ms to_ms"
};

// Makes an answer on a worker's thread, then sends it from the loop. `wanted` becomes false when
// the daemon stops. Errors: kUnavailable: too many such answers are being made.
using Answer = Result<api::Response>;
using AnswerLater = std::function<Result<Unit>(
    std::function<Answer(const std::atomic<bool>& wanted)> make, std::function<void(Answer)> send)>;

class Routes {
 public:
  // Calls back on the loop, now or later; never blocks. Errors: kUnavailable: the name is unknown.
  using AskName =
      std::function<void(std::uint32_t uid, std::function<void(Result<base::KnownUser>)> call)>;
  struct Options {
    std::uint32_t own_uid = 0;        // the daemon's; 0: serves everybody
    std::vector<std::string> admins;  // names
    AskName ask_name;
    // These users and the members of these groups may do more than read, besides root, the daemon's
    // own user and the admins. Both empty: everybody may.
    std::vector<std::string> allow_users = {};
    std::vector<std::uint32_t> allow_groups = {};
    // The owner of a token; empty: unknown token.
    std::function<std::optional<api::Peer>(std::string_view token)> find_token = nullptr;
  };

  // table: if two rows match a path, the first is used. why_not: the answer of endpoints without
  // `handle`. Objects of this class may be replaced while requests are in progress.
  Routes(Options options, std::vector<Endpoint> table, std::string why_not = "")
      : options_(std::move(options)), table_(std::move(table)), why_not_(std::move(why_not)) {}

  void Handle(api::Request request, const api::Responder& reply) const;
  // Whether the request can be handled; false: its endpoint has no `handle` yet.
  bool CanHandle(const api::Request& request) const;

 private:
  // Fills the parts of the path. Errors: kNotFound, kInvalid for another method or an unknown
  // parameter below /v1.
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
