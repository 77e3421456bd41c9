// A thread that runs slow jobs in order. The program can exit even if a job never returns.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace carma::daemon {

class Worker {
 public:
  // Like std::thread, throws std::system_error if no thread can be created.
  using MakeThread = std::function<std::thread(std::function<void()>)>;

  explicit Worker(MakeThread make = [](std::function<void()> run) {
    return std::thread(std::move(run));
  });
  // Drops jobs that have not begun and waits for the running job. If that job was declared stuck,
  // the thread is abandoned instead, so jobs must own or share ownership of whatever they use.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns whether the thread is running. If no thread can be created now (too many processes, out
  // of memory), jobs wait until a later call to Start() or Do() succeeds.
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

}  // namespace carma::daemon
