// Runs jobs on a separate thread with time limits. Delivers their results on the loop, unless the
// caller has been destroyed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

// A thread that runs slow jobs in order. The program can exit even if a job never returns.
class Worker {
 public:
  // Like std::thread, throws std::system_error if no thread can be created.
  using MakeThread = std::function<std::thread(std::function<void()>)>;

  static std::thread NewThread(std::function<void()> run) { return std::thread(std::move(run)); }

  explicit Worker(MakeThread make = NewThread);
  // Drops jobs that have not begun and waits for the running job, unless that job was declared
  // stuck. The thread of a stuck job is abandoned, so jobs must own or share ownership of whatever
  // they use.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Starts the thread unless it is running. Returns whether it is running. If no thread can be
  // created now (too many processes, out of memory), jobs wait until a later Start() or Do()
  // succeeds.
  bool Start();
  void Do(std::function<void()> job);
  void DeclareStuck();
  // Drops jobs that have not begun and returns their number.
  int Drop();

 private:
  struct Shared;
  MakeThread make_;
  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
};

// Used only on the loop's thread. The separate thread runs its jobs one after another.
class BackgroundWorker {
 public:
  // What the destructor does if a job is running.
  enum class AtEnd {
    kWait,  // waits for the job; for jobs that return soon after wanted() becomes false
    // Abandons the thread; for jobs that may hang. Such jobs must share ownership of whatever they
    // use.
    kLeave,
  };
  // If no thread can be created, jobs wait, and the daemon tries again every second.
  BackgroundWorker(std::shared_ptr<boost::asio::io_context> loop, AtEnd at_end,
                   Worker::MakeThread make = Worker::NewThread);
  // No results are delivered after destruction.
  ~BackgroundWorker();
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  // Runs the job on the thread and then calls `then` on the loop with the job's result. Both must
  // be copyable. `then` is called and destroyed only on the loop.
  template <class Job, class Then>
  void Ask(Job job, Then then) {
    Do([job = std::move(job), then = std::move(then)]() mutable -> std::function<void()> {
      auto answer = std::make_shared<std::invoke_result_t<Job&>>(job());
      return [answer, then = std::move(then)]() mutable { then(std::move(*answer)); };
    });
  }
  // Runs a job without a result.
  void Tell(std::function<void()> job);
  // Calls `late` after `limit`, unless the returned function is called first. `then` can call that
  // function to check whether its result is still needed. The first call returns true if the limit
  // has not passed; any other call returns false.
  std::function<bool()> Within(std::chrono::nanoseconds limit, std::function<void()> late);
  // Calls back on the loop unless this object has been destroyed in the meantime.
  void Later(std::function<void()> call);

  // Must be called if the running job hangs. The hanging job keeps its thread, and its result is
  // delivered if it returns after all. Jobs that have not begun are dropped. Later jobs run on a
  // new thread.
  void Abandon();
  // Number of calls to Abandon().
  int abandoned() const { return abandoned_; }
  // Number of jobs whose results have not been delivered.
  int waiting() const { return waiting_; }
  // Becomes false when this object is destroyed, which also wakes threads that are waiting for the
  // change. Jobs that can stop early should check it.
  std::shared_ptr<const std::atomic<bool>> wanted() const { return wanted_; }

 private:
  void Do(std::function<std::function<void()>()> job);
  void SeeToThread();

  std::shared_ptr<boost::asio::io_context> loop_;  // shared with threads that outlive this object
  std::shared_ptr<std::atomic<bool>> wanted_;
  AtEnd at_end_;
  int waiting_ = 0;
  int abandoned_ = 0;
  Worker::MakeThread make_;
  bool retrying_ = false;
  std::unique_ptr<Worker> worker_;
};

}  // namespace carma::daemon
