// Names of users for a loop that may not wait for the system's user database, which may be on the
// network.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/user.h"
#include "daemon/loop/background_worker.h"

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

struct UserNamesOptions {
  std::chrono::milliseconds limit = std::chrono::seconds(10);  // for an answer
  std::chrono::milliseconds keep = std::chrono::seconds(60);   // so long a name is used
  // May block, for ever even.
  std::function<std::string(std::uint32_t)> look_up = base::UserName;
};

// Asked on a thread of its own, one after the other, and remembered for a while.
class UserNames {
 public:
  using Call = std::function<void(base::Result<std::string>)>;

  explicit UserNames(std::shared_ptr<boost::asio::io_context> loop, UserNamesOptions options = {});

  // Calls back on the loop, at once where the name is remembered; never after the end of this
  // object. While the database hangs an old name counts as well. Errors: kUnavailable: no answer
  // within the limit.
  void Ask(std::uint32_t uid, Call call);

 private:
  struct User {
    std::optional<std::string> name;
    std::chrono::steady_clock::time_point good_until{};
    bool asked = false;  // and the worker has not answered
    std::vector<Call> waiting;
    std::function<bool()> in_time;  // of the worker's Within(), for those that wait
  };
  void Answer(std::uint32_t uid, User& user);

  UserNamesOptions options_;
  std::map<std::uint32_t, User> users_;  // what is under way refers to them: none is removed
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
