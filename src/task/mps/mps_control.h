// Talks with the control daemon of one server through NVIDIA's control program. Everything blocks,
// at most until a deadline: for workers, never for the loop.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process_id.h"
#include "base/result.h"
#include "task/mps/mps.h"
#include "task/mps/mps_files.h"

namespace carma::task {

struct MpsSetup {
  std::string shim_path;  // carma-shim: takes on the user's rights
  std::string program;    // collocation.mps_control: in $PATH, or an absolute path
  std::string dir;        // collocation.mps_dir
  std::map<std::string, std::string> environment;  // of the control daemon, beyond its own
};

// What a look at a server found.
struct MpsServer {
  base::ProcessId process;
  MpsServerState state = MpsServerState::kUnknown;
};

// What a control daemon that was started for a moment showed.
struct MpsAbilities {
  bool tells_state = false;  // of a server; branches before 550 do not
  bool logs = false;         // its log has lines
};

class MpsControl {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  MpsControl(MpsSetup setup, MpsServerId id)
      : setup_(std::move(setup)), id_(std::move(id)), logs_(setup_.dir, id_) {}

  // The control daemon that serves the server's folder: whoever holds its lock (mps_files.h), if it
  // is a process of that user's. Does not ask it anything.
  std::optional<base::ProcessId> Daemon() const;

  // Starts daemon and server if they do not run, and waits until the server takes clients. A server
  // that ends as it starts is noticed at once, and the error says why by its log. Errors, each a
  // sentence: kNotFound (no such program), kUnavailable (refused, ended, did not answer in time,
  // the server is in a faulted state), kDenied, kIo. What has been started and did not come up is
  // gone.
  base::Result<MpsServer> Ready(Deadline deadline) const;
  // Starts the daemon, asks it, and ends it again; no server is started. For a folder of which
  // nobody makes use. Errors: as Ready().
  base::Result<MpsAbilities> Try(Deadline deadline) const;
  // Empty: no server runs, or no daemon that could have one. Errors: kUnavailable.
  base::Result<std::optional<MpsServer>> Look(Deadline deadline) const;
  base::Result<std::vector<pid_t>> Clients(const MpsServer& server, Deadline deadline) const;
  // The client's context on the GPU is ended in order; the process lives on and is told (error
  // 810).
  base::Result<base::Unit> TerminateClient(const MpsServer& server, pid_t client,
                                           Deadline deadline) const;
  // Daemon and server end; whatever does not until then is killed, and the files that are left in
  // the pipe directory go with it. For a server without clients.
  void Quit(Deadline deadline) const;

  const MpsServerId& id() const { return id_; }

 private:
  base::Result<base::Unit> Start(Deadline deadline) const;
  void EndLate() const;
  // asked: the logs as they were before the server was asked for; said: what the daemon answered.
  bool TakesClients(const MpsServer& server, const std::optional<MpsLogMark>& asked) const;
  base::Error WhyNoServer(const MpsLogMark& asked, const std::string& said) const;
  void End(const base::ProcessId& daemon, Deadline deadline) const;
  // One command; its answer. Errors: kUnavailable.
  base::Result<std::string> Ask(const std::string& command, Deadline deadline) const;
  base::Result<std::string> Run(const std::vector<std::string>& arguments, const std::string& input,
                                Deadline deadline) const;

  MpsSetup setup_;
  MpsServerId id_;
  MpsLogs logs_;
};

// Whether MPS can be had: MpsControl::Try() by this process's user in a folder of its own, whatever
// setup.dir is; nothing is left of it.
base::Result<MpsAbilities> TryMps(MpsSetup setup, MpsControl::Deadline deadline);

// Servers below `dir` whose control daemons run, left there by an earlier carmad. Only those of the
// GPUs named, each as MpsServerId::gpus.
std::vector<MpsServerId> FindMpsServers(const MpsSetup& setup,
                                        const std::vector<std::string>& gpus);

}  // namespace carma::task
