// Asks a thread of its own, takes the answer on the loop: within a limit, or never if the asker is
// gone.
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

// Lives on the loop; only jobs run on its thread, one after another.
class BackgroundWorker {
 public:
  // What its end does with a job that is still running.
  enum class AtEnd {
    kWait,   // for jobs that end soon after wanted() has become false
    kLeave,  // for those that may hang: the thread is left alone, jobs own
             // (shared) what they touch
  };
  // Where the machine gives no thread, jobs wait until it does; it is asked again every second.
  BackgroundWorker(std::shared_ptr<boost::asio::io_context> loop, AtEnd at_end,
                   Worker::MakeThread make = nullptr);
  // From here on nothing is answered.
  ~BackgroundWorker();
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  // then(job()): the job on the thread, `then` on the loop. Both can be copied; `then` is only ever
  // touched, and let go, on the loop.
  template <class Job, class Then>
  void Ask(Job job, Then then) {
    Do([job = std::move(job), then = std::move(then)]() mutable -> std::function<void()> {
      auto answer = std::make_shared<std::invoke_result_t<Job&>>(job());
      return [answer, then = std::move(then)]() mutable { then(std::move(*answer)); };
    });
  }
  // A job that nobody waits for.
  void Tell(std::function<void()> job);
  // `late` is called after that time, unless the result was called before; the result is true for
  // its first caller and false once it is too late. So `then` knows whether its answer still
  // counts.
  std::function<bool()> Within(std::chrono::nanoseconds limit, std::function<void()> late);
  // Calls soon, unless this object is gone by then.
  void Later(std::function<void()> call);

  // The running job hangs: it keeps the thread to itself (and is answered if it comes back after
  // all), what comes from now on gets a new one. Jobs not yet begun are dropped.
  void Abandon();
  // Jobs that were asked and are not answered.
  int waiting() const { return waiting_; }
  // False once this object is gone; who waits for that is woken. For jobs that can stop half-way.
  std::shared_ptr<const std::atomic<bool>> wanted() const { return wanted_; }

 private:
  void Do(std::function<std::function<void()>()> job);
  std::unique_ptr<Worker> NewWorker() const;
  void SeeToThread();

  std::shared_ptr<boost::asio::io_context> loop_;  // shared with threads that outlive this object
  std::shared_ptr<std::atomic<bool>> wanted_;
  AtEnd at_end_;
  int waiting_ = 0;
  Worker::MakeThread make_;  // empty: as Worker does
  bool retrying_ = false;
  std::unique_ptr<Worker> worker_;
};

}  // namespace carma::daemon
