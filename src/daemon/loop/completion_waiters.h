// Who waits for the ends of tasks: long polls of the API.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <utility>

#include "core/values/task.h"
#include "daemon/loop/alarm.h"

namespace carma::daemon {

// Of the loop's thread.
class CompletionWaiters {
 public:
  explicit CompletionWaiters(boost::asio::io_context& loop) : loop_(loop) {}

  // Calls once, later: when the task has ended, or after so long in real time, whichever is first.
  // An asker that has gone meanwhile is called all the same; never after this is gone.
  void Await(core::TaskId task, std::chrono::nanoseconds limit, std::function<void()> call);
  // The task has ended: calls all who wait for it, in the order in which they came. They may wait
  // anew.
  void Ended(core::TaskId task);

  std::size_t waiting() const;

 private:
  struct Waiter {
    Waiter(boost::asio::io_context& loop, std::function<void()> to_call)
        : limit(loop), call(std::move(to_call)) {}
    Alarm limit;
    std::function<void()> call;
  };
  using Waiters = std::list<Waiter>;  // an alarm stays where it is

  void Overdue(core::TaskId task, Waiters::iterator waiter);

  boost::asio::io_context& loop_;
  std::map<core::TaskId, Waiters> waiters_;  // no list is empty
};

}  // namespace carma::daemon
