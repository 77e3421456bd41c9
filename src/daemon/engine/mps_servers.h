// Runs the MPS servers of tasks. The control daemon for a user and a GPU is started when the first
// task needs it, and shut down after the last task has left. Failures are logged and listed by
// Troubles(). Used only on the loop's thread; slow work runs on one worker per server.
// docs/server/collocation.md has the rules.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/values/ids.h"
#include "daemon/engine/mps_clients.h"
#include "daemon/engine/mps_partitions.h"
#include "task/mps/mps_control.h"

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

// An attempt that is, or will become, a client of a server.
struct MpsClient {
  core::TaskId id{};
  int attempt = 0;
  task::MpsServerId server;
  double sm_share = 0;         // requested partition, as a share of the SMs; 0 if none
  std::string partition = {};  // partition of an adopted attempt, as in core::Sharing; or empty
  std::vector<std::string> gpus = {};  // UUIDs of the attempt's GPUs; not needed to adopt it
};

class MpsServers {
 public:
  virtual ~MpsServers() = default;
  using Attached = std::function<void(Result<MpsPlace>)>;

  // Requests a client slot on a running server. `answer` is called exactly once, after this
  // function has returned, with the slot's resources or a sentence that explains why the task runs
  // without MPS.
  virtual void Attach(const MpsClient& client, Attached answer) = 0;
  // Registers a client from an earlier run of the daemon.
  virtual void Adopt(const MpsClient& client) = 0;
  // Must be called when the attempt has ended or will not start. Unknown attempts are ignored.
  virtual void Detach(core::TaskId id, int attempt) = 0;
  // Removes the attempt's processes (those for which `its` returns true) from the server's clients.
  // Calls `done` exactly once: when they have been removed, or after two seconds at the latest.
  // `done` is called even if there is nothing to do, but never before this function returns.
  virtual void TerminateClients(core::TaskId id, int attempt, std::function<bool(pid_t)> its,
                                std::function<void()> done) = 0;
  // `answer` is called exactly once, after this function has returned.
  virtual void AskEvidence(core::TaskId id, int attempt,
                           std::function<void(MpsEvidence)> answer) = 0;
  // Blames this attempt for a GPU fault that ended it and affected its neighbours.
  virtual void Blame(core::TaskId id, int attempt) = 0;
  // Records which processes of an attempt the driver currently lists on the attempt's GPUs. Unknown
  // attempts are ignored.
  virtual void Seen(core::TaskId id, int attempt, const std::vector<pid_t>& pids) = 0;
  // One sentence for each server whose last start failed and for each task with a process that
  // bypasses the task's server.
  virtual std::vector<std::string> Troubles() const = 0;
  // Called after GPUs have been closed. Servers without tasks exit immediately if one of their GPUs
  // is closed.
  virtual void EndOnClosedGpus() = 0;
  // Takes over the control daemons that an earlier carmad left running on these GPU sets (in the
  // format of task::MpsServerId::gpus). Unused control daemons exit after a while.
  virtual void TakeOver(const std::vector<std::string>& gpus) = 0;
  // Called when carmad exits. Servers without tasks exit immediately; the others keep running for
  // the next carmad. Blocks for a few seconds at most.
  virtual void Close() = 0;
};

struct MpsServersOptions {
  task::MpsSetup setup;
  std::size_t clients = 48;                          // maximum number of clients of one server
  std::chrono::milliseconds timeout{10'000};         // limit for a start or a request; real time
  std::chrono::milliseconds terminate_limit{2'000};  // for TerminateClients; real time
  // How long a server without tasks keeps running (real time). If one of its GPUs is closed, it
  // exits immediately.
  std::chrono::nanoseconds linger{60'000'000'000};
  // True if the GPU is closed. Called on the loop's thread.
  std::function<bool(const std::string& gpu_uuid)> is_closed = [](const auto&) { return false; };
  // Given a server's GPUs, returns those that can be read now, in the format and order of `gpus`
  // (see task::MpsControl::Showing). Called on the loop's thread.
  std::function<std::string(const std::string& gpus)> readable = [](const auto& all) {
    return all;
  };
  std::chrono::nanoseconds probe{10'000'000'000};  // between two server checks; real time
  // Delay (real time) before retrying a failed start. Doubles with each further failure.
  std::chrono::nanoseconds backoff{30'000'000'000};
};
std::unique_ptr<MpsServers> OpenMpsServers(std::shared_ptr<boost::asio::io_context> loop,
                                           MpsServersOptions options);

}  // namespace carma::daemon
