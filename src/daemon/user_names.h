// Names of users for a loop that may not wait for the system's user database, which may be on the
// network.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/user.h"
#include "daemon/worker.h"

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
  ~UserNames();
  UserNames(const UserNames&) = delete;
  UserNames& operator=(const UserNames&) = delete;

  // Calls back on the loop, at once where the name is remembered; never after the end of this
  // object. While the database hangs an old name counts as well. Errors: kUnavailable: no answer
  // within the limit.
  void Ask(std::uint32_t uid, Call call);

 private:
  struct User;
  void Take(std::uint32_t uid, std::string name);
  void Answer(std::uint32_t uid, User& user) const;

  // Shared with the worker's thread, which may come back when everything else is gone.
  std::shared_ptr<boost::asio::io_context> loop_;
  // Shared with nobody: what the worker posts holds it weakly, to see whether this object lives.
  std::shared_ptr<bool> alive_;
  UserNamesOptions options_;
  std::map<std::uint32_t, std::unique_ptr<User>> users_;
  Worker worker_;
};

}  // namespace carma::daemon
