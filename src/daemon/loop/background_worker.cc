#include "daemon/loop/background_worker.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>

#include "base/log.h"

namespace carma::daemon {

namespace asio = boost::asio;

namespace {
constexpr auto kThreadRetry = std::chrono::seconds(1);
}  // namespace

struct Worker::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool stopping = false;
  bool stuck = false;
  std::thread thread;
};

Worker::Worker(MakeThread make) : make_(std::move(make)), shared_(std::make_shared<Shared>()) {
  (void)Start();
}

bool Worker::Start() {
  if (shared_->thread.joinable()) return true;
  const auto run = [shared = shared_] {
    std::unique_lock lock(shared->mutex);
    while (true) {
      shared->changed.wait(lock, [&] { return shared->stopping || !shared->jobs.empty(); });
      if (shared->stopping) return;
      const std::function<void()> job = std::move(shared->jobs.front());
      shared->jobs.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  };
  try {
    shared_->thread = make_(run);
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

Worker::~Worker() {
  bool stuck = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->jobs.clear();
    stuck = shared_->stuck;
  }
  shared_->changed.notify_all();
  if (!shared_->thread.joinable()) return;
  if (stuck) {
    shared_->thread.detach();
  } else {
    shared_->thread.join();
  }
}

void Worker::Do(std::function<void()> job) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->jobs.push_back(std::move(job));
  }
  shared_->changed.notify_one();
  (void)Start();
}

int Worker::Drop() {
  const std::lock_guard lock(shared_->mutex);
  return static_cast<int>(std::exchange(shared_->jobs, {}).size());
}

void Worker::DeclareStuck() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stuck = true;
}

BackgroundWorker::BackgroundWorker(std::shared_ptr<asio::io_context> loop, AtEnd at_end,
                                   Worker::MakeThread make)
    : loop_(std::move(loop)),
      wanted_(std::make_shared<std::atomic<bool>>(true)),
      at_end_(at_end),
      make_(std::move(make)),
      worker_(std::make_unique<Worker>(make_)) {
  SeeToThread();
}

void BackgroundWorker::SeeToThread() {
  if (retrying_ || worker_->Start()) return;
  base::LogWarn("no_thread", {{"why", "cannot create a thread; retrying every second"}});
  retrying_ = true;
  auto timer = std::make_shared<asio::steady_timer>(*loop_, kThreadRetry);
  timer->async_wait([this, timer, wanted = wanted_](const boost::system::error_code& error) {
    if (error || !*wanted) return;
    retrying_ = false;
    SeeToThread();
  });
}

BackgroundWorker::~BackgroundWorker() {
  *wanted_ = false;
  wanted_->notify_all();
  if (at_end_ == AtEnd::kLeave && waiting_ > 0) worker_->DeclareStuck();
}

void BackgroundWorker::Do(std::function<std::function<void()>()> job) {
  ++waiting_;
  worker_->Do([this, loop = loop_, wanted = wanted_, job = std::move(job)] {
    std::function<void()> then = job();
    asio::post(*loop, [this, wanted, then = std::move(then)] {
      if (!*wanted) return;
      --waiting_;
      then();
    });
  });
  SeeToThread();
}

void BackgroundWorker::Tell(std::function<void()> job) {
  worker_->Do(std::move(job));
  SeeToThread();
}

std::function<bool()> BackgroundWorker::Within(std::chrono::nanoseconds limit,
                                               std::function<void()> late) {
  auto timer = std::make_shared<asio::steady_timer>(
      *loop_, std::chrono::duration_cast<asio::steady_timer::duration>(limit));
  auto first = [timer, open = std::make_shared<bool>(true)] {
    timer->cancel();
    return std::exchange(*open, false);
  };
  timer->async_wait(
      [first, late = std::move(late), wanted = wanted_](const boost::system::error_code& error) {
        if (!error && *wanted && first()) late();
      });
  return first;
}

void BackgroundWorker::Later(std::function<void()> call) {
  asio::post(*loop_, [wanted = wanted_, call = std::move(call)] {
    if (*wanted) call();
  });
}

void BackgroundWorker::Abandon() {
  worker_->DeclareStuck();
  waiting_ -= worker_->Drop();
  worker_ = std::make_unique<Worker>(make_);
  ++abandoned_;
  SeeToThread();
}

}  // namespace carma::daemon
