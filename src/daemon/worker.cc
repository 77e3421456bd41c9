#include "daemon/worker.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace carma::daemon {

struct Worker::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool stopping = false;
  bool stuck = false;
  std::thread thread;
};

Worker::Worker() : shared_(std::make_shared<Shared>()) {
  shared_->thread = std::thread([shared = shared_] {
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
  });
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
}

void Worker::DeclareStuck() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stuck = true;
}

}  // namespace carma::daemon
