#include "daemon/loop/worker.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
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

}  // namespace carma::daemon
