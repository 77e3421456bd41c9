// MPS servers of tasks: starts a control daemon for a user and a GPU when the first task needs it,
// ends it when the last has left, and records its failures. Used only on the loop's thread; slow
// work runs on a worker per server. Rules: docs/server/collocation.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/values/ids.h"
#include "daemon/engine/mps_clients.h"
#include "daemon/engine/mps_partitions.h"
#include "task/mps/mps_control.h"

namespace boost::asio {
class io_context;
}

namespace carma::daemon {

// An attempt as a client of a server.
struct MpsClient {
  core::TaskId id{};
  int attempt = 0;
  task::MpsServerId server;
  double sm_share = 0;         // requests a partition of this share of the SMs; 0: none
  std::string partition = {};  // of an adopted one, as in core::Sharing; or empty
};

class MpsServers {
 public:
  virtual ~MpsServers() = default;
  using Attached = std::function<void(Result<MpsPlace>)>;

  // Asks for a client slot of a running server. Answers later, once: its place, or a sentence that
  // explains why the task runs without MPS.
  virtual void Attach(const MpsClient& client, Attached answer) = 0;
  // Registers an attempt of an earlier run of the daemon that is already a client.
  virtual void Adopt(const MpsClient& client) = 0;
  // Call it when the attempt has ended or will not start. Unknown attempts are ignored.
  virtual void Detach(core::TaskId id, int attempt) = 0;
  // Removes the attempt's processes (selected by `its`) from the server's clients. Then, or after
  // two seconds, or at once if there is nothing to do, calls `done`, once and later.
  virtual void TerminateClients(core::TaskId id, int attempt, std::function<bool(pid_t)> its,
                                std::function<void()> done) = 0;
  // Answers later, once.
  virtual void AskEvidence(core::TaskId id, int attempt,
                           std::function<void(MpsEvidence)> answer) = 0;
  // Reports that this attempt ended by its own GPU fault, which affected its neighbours.
  virtual void Blame(core::TaskId id, int attempt) = 0;
  // Takes the processes of an attempt that the driver now lists on its GPUs. Unknown attempts are
  // ignored.
  virtual void Seen(core::TaskId id, int attempt, const std::vector<pid_t>& pids) = 0;
  // Servers that last failed to start, and processes that bypass their task's server; a sentence
  // each.
  virtual std::vector<std::string> Troubles() const = 0;
  // Called when the GPU is closed: servers without tasks end now.
  virtual void Drain(const std::string& gpu_uuid) = 0;
  // Takes over the control daemons that an earlier carmad left on these GPUs (each as
  // task::MpsServerId::gpus); unused ones end after a while.
  virtual void TakeOver(const std::vector<std::string>& gpus) = 0;
  // Called when carmad ends: servers without tasks end now, those with tasks stay for the next
  // carmad. Blocks for a few seconds at most.
  virtual void Close() = 0;
};

struct MpsServersOptions {
  task::MpsSetup setup;
  std::size_t clients = 48;                          // then it takes no further task
  std::chrono::milliseconds timeout{10'000};         // real time, of one start or question
  std::chrono::milliseconds terminate_limit{2'000};  // real time
  std::chrono::nanoseconds linger{60'000'000'000};   // real time without tasks before a server ends
  std::chrono::nanoseconds probe{10'000'000'000};    // real time between two looks at a server
  std::chrono::nanoseconds backoff{30'000'000'000};  // real time after a failed start, then doubled
};
std::unique_ptr<MpsServers> OpenMpsServers(std::shared_ptr<boost::asio::io_context> loop,
                                           MpsServersOptions options);

}  // namespace carma::daemon
