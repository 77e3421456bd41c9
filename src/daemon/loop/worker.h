// One thread that does slow jobs in order. A job that never returns does not stop the program from
// ending.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace carma::daemon {

class Worker {
 public:
  // Throws std::system_error where the machine gives no thread, as std::thread does.
  using MakeThread = std::function<std::thread(std::function<void()>)>;

  explicit Worker(MakeThread make = [](std::function<void()> run) {
    return std::thread(std::move(run));
  });
  // Jobs not yet begun are dropped. A running one is waited for unless it was declared stuck; then
  // its thread is left alone, so jobs must own (shared) whatever they touch.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // True: its thread runs. False: the machine gives none now (too many processes, no memory); jobs
  // wait until a later call gets one. Every Do() tries, too.
  bool Start();
  void Do(std::function<void()> job);
  void DeclareStuck();

 private:
  struct Shared;
  MakeThread make_;
  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
};

}  // namespace carma::daemon
