// Schedules work that occupies the loop for milliseconds, so that many calls by one user do not
// delay other users. Users take turns, and only one job runs at a time. A long job is followed by a
// pause of the same length, so that the loop can do other work.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/loop/alarm.h"

namespace carma::daemon {

// Used only on the loop's thread.
class FairTurns {
 public:
  using User = std::optional<std::uint32_t>;  // empty if unknown

  using Clock = std::chrono::steady_clock;

  explicit FairTurns(boost::asio::io_context& loop,
                     std::function<Clock::time_point()> now = Clock::now)
      : loop_(loop), now_(std::move(now)), pause_(loop) {}

  // Runs the work soon, after this user's earlier work.
  void Ask(User user, std::function<void()> work) {
    std::deque<std::function<void()>>& own = waiting_[user];
    own.push_back(std::move(work));
    if (own.size() == 1) turns_.push_back(user);
    if (!std::exchange(posted_, true)) Post();
  }

 private:
  static constexpr std::chrono::milliseconds kShort{1};  // no pause after a piece this short

  void Post() {
    boost::asio::post(loop_, [this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) RunOne();
    });
  }
  // Runs one piece of work and only then posts the next one, so that the loop can serve its sockets
  // in between.
  void RunOne() {
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
    const Clock::time_point began = now_();
    work();
    const Clock::duration took = now_() - began;
    if (took > kShort) return pause_.Set(took, [this] { Continue(); });
    Continue();
  }
  void Continue() {
    posted_ = !turns_.empty();
    if (posted_) Post();
  }

  boost::asio::io_context& loop_;
  std::function<Clock::time_point()> now_;
  Alarm pause_;
  std::map<User, std::deque<std::function<void()>>> waiting_;
  std::deque<User> turns_;
  bool posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace carma::daemon
