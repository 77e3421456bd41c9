// Distributes work that takes milliseconds of the loop, so that one user's many calls do not delay
// others: one piece per round of the loop, users in turn.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace carma::daemon {

// Lives on the loop.
class FairTurns {
 public:
  using User = std::optional<std::uint32_t>;  // empty: not known by name

  explicit FairTurns(boost::asio::io_context& loop) : loop_(loop) {}

  // Runs it soon, after earlier work of this user.
  void Ask(User user, std::function<void()> work) {
    std::deque<std::function<void()>>& own = waiting_[user];
    own.push_back(std::move(work));
    if (own.size() == 1) turns_.push_back(user);
    if (!std::exchange(posted_, true)) Post();
  }

 private:
  // Only one piece is posted at a time, so that the loop serves its sockets in between.
  void Post() {
    boost::asio::post(loop_, [this, alive = std::weak_ptr(alive_)] {
      if (alive.expired()) return;
      const User user = turns_.front();
      turns_.pop_front();
      const auto own = waiting_.find(user);
      const std::function<void()> work = std::move(own->second.front());
      own->second.pop_front();
      if (own->second.empty()) {
        waiting_.erase(own);
      } else {
        turns_.push_back(user);
      }
      posted_ = !turns_.empty();
      if (posted_) Post();
      work();
    });
  }

  boost::asio::io_context& loop_;
  std::map<User, std::deque<std::function<void()>>> waiting_;
  std::deque<User> turns_;
  bool posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace carma::daemon
