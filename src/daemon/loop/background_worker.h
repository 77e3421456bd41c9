// Runs jobs on a separate thread with time limits, and delivers results on the loop unless the
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

// Used only on the loop's thread. The separate thread runs one job after another.
class BackgroundWorker {
 public:
  // How the destructor treats a running job.
  enum class AtEnd {
    kWait,  // waits; for jobs that end soon after wanted() becomes false
    // Abandons the thread; for jobs that may hang. They must share ownership of what they use.
    kLeave,
  };
  // If no thread can be created, jobs wait, and the creation is retried every second.
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
  // Calls `late` after that time unless the returned function was called before. The returned
  // function returns true on its first call in time and false afterwards, so `then` can check
  // whether its result still counts.
  std::function<bool()> Within(std::chrono::nanoseconds limit, std::function<void()> late);
  // Calls back on the loop, unless this object has been destroyed by then.
  void Later(std::function<void()> call);

  // Must be called if the running job hangs. The job keeps its thread, and its result is still
  // delivered if it returns. Later jobs get a new thread, and jobs that have not begun are dropped.
  void Abandon();
  // Number of calls of Abandon() so far.
  int abandoned() const { return abandoned_; }
  // Number of jobs without a delivered result.
  int waiting() const { return waiting_; }
  // Becomes false, and wakes threads that wait on it, once this object is destroyed. Jobs that can
  // stop early check it.
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
  Worker::MakeThread make_;  // empty: Worker's default
  bool retrying_ = false;
  std::unique_ptr<Worker> worker_;
};

}  // namespace carma::daemon
