#include "daemon/loop/completion_waiters.h"

namespace carma::daemon {

void CompletionWaiters::Await(core::TaskId task, std::chrono::nanoseconds limit,
                              std::function<void()> call) {
  Waiters& waiting = waiters_[task];
  const auto waiter = waiting.emplace(waiting.end(), loop_, std::move(call));
  waiter->limit.Set(limit, [this, task, waiter] { Overdue(task, waiter); });
}

void CompletionWaiters::Overdue(core::TaskId task, Waiters::iterator waiter) {
  const std::function<void()> call = std::move(waiter->call);
  Waiters& waiting = waiters_.at(task);
  waiting.erase(waiter);
  if (waiting.empty()) waiters_.erase(task);
  call();
}

void CompletionWaiters::Ended(core::TaskId task) {
  const auto found = waiters_.extract(task);
  if (!found) return;
  for (const Waiter& each : found.mapped()) each.call();
}

std::size_t CompletionWaiters::waiting() const {
  std::size_t count = 0;
  for (const auto& [task, waiters] : waiters_) count += waiters.size();
  return count;
}

}  // namespace carma::daemon
