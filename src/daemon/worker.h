// One thread that does slow jobs in order. A job that never returns does not stop the program from
// ending.
#pragma once

#include <functional>
#include <memory>

namespace carma::daemon {

class Worker {
 public:
  Worker();
  // Jobs not yet begun are dropped. A running one is waited for unless it was declared stuck; then
  // its thread is left alone, so jobs must own (shared) whatever they touch.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Do(std::function<void()> job);
  void DeclareStuck();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
};

}  // namespace carma::daemon
