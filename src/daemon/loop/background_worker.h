// Runs jobs on its own thread, with a time limit, and delivers results on the loop unless the
// caller is gone.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "daemon/loop/worker.h"

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

// Used only on the loop's thread; its own thread runs only jobs, one after another.
class BackgroundWorker {
 public:
  // What destruction does with a running job.
  enum class AtEnd {
    kWait,   // for jobs that end soon after wanted() has become false
    kLeave,  // for jobs that may hang: the thread is abandoned; jobs must own
             // (shared) what they touch
  };
  // If no thread can be created, jobs wait, and carmad tries again every second.
  BackgroundWorker(std::shared_ptr<boost::asio::io_context> loop, AtEnd at_end,
                   Worker::MakeThread make = nullptr);
  // After destruction no result is delivered.
  ~BackgroundWorker();
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  // then(job()): runs the job on the thread and `then` on the loop. Both must be copyable; `then`
  // is called and destroyed only on the loop.
  template <class Job, class Then>
  void Ask(Job job, Then then) {
    Do([job = std::move(job), then = std::move(then)]() mutable -> std::function<void()> {
      auto answer = std::make_shared<std::invoke_result_t<Job&>>(job());
      return [answer, then = std::move(then)]() mutable { then(std::move(*answer)); };
    });
  }
  // Runs a job without a result.
  void Tell(std::function<void()> job);
  // Calls `late` after that time, unless the returned function was called before. That function
  // returns true on its first call in time and false afterwards, so `then` knows whether its result
  // still counts.
  std::function<bool()> Within(std::chrono::nanoseconds limit, std::function<void()> late);
  // Calls back soon, unless this object is gone by then.
  void Later(std::function<void()> call);

  // Call it if the running job hangs: it keeps its thread (its result is still delivered if it
  // returns), later jobs get a new one, and jobs not yet begun are dropped.
  void Abandon();
  // Calls of Abandon() so far.
  int abandoned() const { return abandoned_; }
  // Jobs without a delivered result.
  int waiting() const { return waiting_; }
  // Becomes false, and wakes waiters, once this object is gone. Jobs that can stop early check it.
  std::shared_ptr<const std::atomic<bool>> wanted() const { return wanted_; }

 private:
  void Do(std::function<std::function<void()>()> job);
  std::unique_ptr<Worker> NewWorker() const;
  void SeeToThread();

  std::shared_ptr<boost::asio::io_context> loop_;  // shared with threads that outlive this object
  std::shared_ptr<std::atomic<bool>> wanted_;
  AtEnd at_end_;
  int waiting_ = 0;
  int abandoned_ = 0;
  Worker::MakeThread make_;  // empty: as Worker does
  bool retrying_ = false;
  std::unique_ptr<Worker> worker_;
};

}  // namespace carma::daemon
