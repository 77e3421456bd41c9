// The users and commands of processes that belong to no task.
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
  // loop: receives what the thread has read; null: nothing is read.
  explicit ProcessFaces(std::shared_ptr<boost::asio::io_context> loop);
  // Requests the user names and command lines of strangers not seen before and forgets processes
  // that are no longer strangers. A thread reads them, because this may block: the command line of
  // a process that hangs in a driver, names from a directory service.
  void Follow(const std::vector<GpuUse>& uses);
  // The stranger's face: as read by the thread, or until then as in Stranger::face.
  const ProcessFace& Of(const Stranger& stranger) const;

 private:
  struct Asked {
    base::ProcessId process;
    ProcessFace face;  // empty: not yet read, or the process ended before
  };
  void Ask(const base::ProcessId& process);

  std::shared_ptr<boost::asio::io_context> loop_;
  std::unordered_map<pid_t, Asked> asked_;
  std::optional<BackgroundWorker> reader_;  // created at the first request
};

}  // namespace carma::daemon
