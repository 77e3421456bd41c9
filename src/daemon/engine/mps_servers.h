// Tasks and their MPS servers: starts a control daemon for a user and a GPU when the first task
// needs it, ends it when the last has left, and knows what became of it. Lives on the loop;
// whatever takes time happens on a worker of each server. Rules: docs/server/collocation.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/values/task.h"
#include "task/mps/mps_control.h"

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

// One attempt of one task on its server.
struct MpsClient {
  core::TaskId id{};
  int attempt = 0;
  task::MpsServerId server;
};

// What became of the server that an attempt computed through.
struct MpsEvidence {
  bool broke = false;  // it died, was replaced, or is in a faulted state
  // Another attempt that was there at the time and has been charged with it.
  std::optional<core::TaskId> blamed;
};

class MpsServers {
 public:
  virtual ~MpsServers() = default;
  using Attached = std::function<void(base::Result<base::Unit>)>;

  // A place as a client of a running server. Answers later, once: yes, or in a sentence why the
  // task must go without.
  virtual void Attach(const MpsClient& client, Attached answer) = 0;
  // An attempt of an earlier life of the daemon, which is a client already.
  virtual void Adopt(const MpsClient& client) = 0;
  // It has ended, or does not come. Unknown ones are ignored.
  virtual void Detach(core::TaskId id, int attempt) = 0;
  // Takes those of the server's clients off it that `its` says are the attempt's; then, or after
  // two seconds, or at once if there is nothing to do, calls `done`, once and later.
  virtual void TerminateClients(core::TaskId id, int attempt, std::function<bool(pid_t)> its,
                                std::function<void()> done) = 0;
  // Answers later, once.
  virtual void AskEvidence(core::TaskId id, int attempt,
                           std::function<void(MpsEvidence)> answer) = 0;
  // This attempt ended by a fault of its own on the GPU, which reached its neighbours.
  virtual void Blame(core::TaskId id, int attempt) = 0;
  // The processes of an attempt that the driver lists on its GPUs now. Unknown ones are ignored.
  virtual void Seen(core::TaskId id, int attempt, const std::vector<pid_t>& pids) = 0;
  // Servers that could not be had the last time, and processes of tasks that are no clients of
  // theirs; a sentence each.
  virtual std::vector<std::string> Troubles() const = 0;
  // The GPU is closed: servers without tasks end now.
  virtual void Drain(const std::string& gpu_uuid) = 0;
  // Takes over the control daemons that an earlier carmad left on these GPUs (each as
  // task::MpsServerId::gpus); those that nobody uses end after a while.
  virtual void TakeOver(const std::vector<std::string>& gpus) = 0;
  // The daemon ends: servers without tasks end now, those with tasks stay for the next daemon.
  // Blocks, a few seconds at most.
  virtual void Close() = 0;
};

struct MpsServersOptions {
  task::MpsSetup setup;
  std::size_t clients = 48;                          // a server with so many takes no further task
  std::chrono::milliseconds timeout{10'000};         // real time, of one start or question
  std::chrono::milliseconds terminate_limit{2'000};  // real time
  std::chrono::nanoseconds linger{60'000'000'000};   // real time without tasks before a server ends
  std::chrono::nanoseconds probe{10'000'000'000};    // real time between two looks at a server
  std::chrono::nanoseconds backoff{30'000'000'000};  // real time after a failed start, then doubled
};
std::unique_ptr<MpsServers> OpenMpsServers(std::shared_ptr<boost::asio::io_context> loop,
                                           MpsServersOptions options);

}  // namespace carma::daemon
