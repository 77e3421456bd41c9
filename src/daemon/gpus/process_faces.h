// Looks up the users and commands of processes that do not belong to a task.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "daemon/gpus/gpu_use.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

class ProcessFaces {
 public:
  // loop: receives the results of the reading thread. If null, nothing is read.
  explicit ProcessFaces(std::shared_ptr<boost::asio::io_context> loop);
  // Requests the user names and command lines of new processes that do not belong to a task.
  // Forgets processes that no longer use a GPU. A separate thread reads the data, because reading
  // may block: a process may hang in a driver, and a user name may come from a directory service.
  void Follow(const std::vector<GpuUse>& uses);
  // The user and command of the process, or Stranger::face until the thread has read them.
  const ProcessFace& Of(const Stranger& stranger) const;

 private:
  struct Asked {
    base::ProcessId process;
    ProcessFace face;  // empty if not read yet or if the process exited first
  };
  void Ask(const base::ProcessId& process);

  std::shared_ptr<boost::asio::io_context> loop_;
  std::unordered_map<pid_t, Asked> asked_;
  std::optional<BackgroundWorker> reader_;  // created at the first request
};

}  // namespace carma::daemon
