// Looks up user names and groups for the loop, which must not wait for the system's user database.
// The database may be on the network.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/user.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

struct UserNamesOptions {
  std::chrono::milliseconds limit = std::chrono::seconds(10);  // for one lookup
  std::chrono::milliseconds keep = std::chrono::seconds(60);   // how long a user is cached
  // Called on a separate thread, where it may block forever.
  std::function<Result<base::KnownUser>(std::uint32_t)> look_up = base::KnowUser;
};

// Looks up users one after another on a separate thread and caches them for a while.
class UserNames {
 public:
  using Call = std::function<void(Result<base::KnownUser>)>;

  explicit UserNames(std::shared_ptr<boost::asio::io_context> loop, UserNamesOptions options = {});

  // Calls back on the loop, immediately if the user is cached, and never after destruction. If the
  // database hangs or fails, `call` gets the expired entry, or kUnavailable if there is none. After
  // a lookup has timed out, no caller waits for that user again until `keep` has passed.
  void Ask(std::uint32_t uid, Call call);

 private:
  struct User {
    std::optional<base::KnownUser> known;
    std::chrono::steady_clock::time_point good_until{};
    bool asked = false;  // a lookup is in progress
    std::vector<Call> waiting;
    std::function<bool()> in_time;  // from BackgroundWorker::Within(), for the waiting callers
  };
  void Answer(std::uint32_t uid, User& user);
  static Result<base::KnownUser> KnownNow(std::uint32_t uid, const User& user);

  UserNamesOptions options_;
  std::map<std::uint32_t, User> users_;  // never removed, because pending requests refer to them
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
