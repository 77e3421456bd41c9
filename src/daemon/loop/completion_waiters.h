// Holds callbacks that wait for tasks to end, for the API's long polls. Used only on the loop's
// thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <utility>

#include "core/values/ids.h"
#include "daemon/loop/alarm.h"

namespace carma::daemon {

class CompletionWaiters {
 public:
  explicit CompletionWaiters(boost::asio::io_context& loop) : loop_(loop) {}

  // Calls `call` exactly once: when the task has ended, or after `limit` of real time, but never
  // before this function returns. `call` is called even if the client has disconnected, but not
  // after this object has been destroyed.
  void Await(core::TaskId task, std::chrono::nanoseconds limit, std::function<void()> call) {
    Waiters& waiting = waiters_[task];
    const auto waiter = waiting.emplace(waiting.end(), loop_, std::move(call));
    waiter->limit.Set(limit, [this, task, waiter] { Overdue(task, waiter); });
  }
  // Reports that the task has ended. Calls all callbacks that are waiting for it, oldest first.
  // They may call Await() again.
  void Ended(core::TaskId task) {
    const auto found = waiters_.extract(task);
    if (!found) return;
    for (const Waiter& each : found.mapped()) each.call();
  }

  std::size_t waiting() const {
    std::size_t count = 0;
    for (const auto& [task, waiters] : waiters_) count += waiters.size();
    return count;
  }

 private:
  struct Waiter {
    Waiter(boost::asio::io_context& loop, std::function<void()> to_call)
        : limit(loop), call(std::move(to_call)) {}
    Alarm limit;
    std::function<void()> call;
  };
  using Waiters = std::list<Waiter>;  // a list, because alarms must not move

  void Overdue(core::TaskId task, Waiters::iterator waiter) {
    const std::function<void()> call = std::move(waiter->call);
    Waiters& waiting = waiters_.at(task);
    waiting.erase(waiter);
    if (waiting.empty()) waiters_.erase(task);
    call();
  }

  boost::asio::io_context& loop_;
  std::map<core::TaskId, Waiters> waiters_;  // no list in it is empty
};

}  // namespace carma::daemon
