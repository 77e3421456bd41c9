// The way of a request to its endpoint: which one is meant, who calls, whether that may be.
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

namespace carma::daemon {

// Who calls, as the kernel and the user database tell.
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
  Caller caller;     // of an endpoint that is not for everybody; of kWhoever without a name: nobody
};

enum class Access {
  kEverybody,  // over TCP too: reading
  kWhoever,    // the same, and it is told who calls, if that is known
  kOwners,     // who is known by name: over the Unix socket, or by a token of his; what a user does
               // with tasks of his own. A token never makes an administrator
  kUsers,      // who is known by name: over the Unix socket
};

// One row of the table.
struct Endpoint {
  // An error is the answer; without one the answer comes by the responder, now or later.
  using Handle = std::function<base::Result<base::Unit>(const Call&, const api::Responder&)>;

  std::string_view method;
  std::string_view path;  // {id} and {verb} stand for one piece each
  Access access = Access::kEverybody;
  Handle handle;  // empty: not before the GPUs are known
};

// Makes an answer on a worker's thread, then sends it from the loop. `wanted` becomes false when
// the daemon stops. Errors: kUnavailable: too many such answers are being made.
using Answer = base::Result<api::Response>;
using AnswerLater = std::function<base::Result<base::Unit>(
    std::function<Answer(const std::atomic<bool>& wanted)> make, std::function<void(Answer)> send)>;

class Routes {
 public:
  // Calls back on the loop, now or later; never waits. Errors: kUnavailable: nobody can tell.
  using AskName =
      std::function<void(std::uint32_t uid, std::function<void(base::Result<std::string>)> call)>;
  struct Options {
    std::uint32_t own_uid = 0;        // the daemon's; 0: it serves everybody
    std::vector<std::string> admins;  // names
    AskName ask_name;
    // Who may do more than look, beside root, the daemon's own user and the admins: these users,
    // and members of these groups. Both empty: everybody.
    std::vector<std::string> allow_users = {};
    std::vector<std::uint32_t> allow_groups = {};
    // Whose token it is; empty: nobody's.
    std::function<std::optional<api::Peer>(std::string_view token)> find_token = nullptr;
  };

  // table: of two rows that match a path the first is meant. why_not: what an endpoint without
  // `handle` answers. Objects of this class may come and go while requests are under way.
  Routes(Options options, std::vector<Endpoint> table, std::string why_not = "")
      : options_(std::move(options)), table_(std::move(table)), why_not_(std::move(why_not)) {}

  void Handle(api::Request request, const api::Responder& reply) const;

 private:
  // Fills what the path says. Errors: kNotFound, kInvalid for another method.
  base::Result<const Endpoint*> Find(Call& call) const;
  void RefuseStranger(const api::Responder& reply) const;
  // Whom the kernel or a token names. Errors: kDenied for a token of nobody.
  base::Result<std::optional<api::Peer>> Identity(const api::Request& request) const;
  void RunForUser(const Endpoint::Handle& handle, Call call, const api::Peer& who,
                  const api::Responder& reply) const;

  Options options_;
  std::vector<Endpoint> table_;
  std::string why_not_;
};

}  // namespace carma::daemon
