// Communicates with one server's control daemon through NVIDIA's control program, using the
// daemon's protocol version (2 if carmad started the daemon). Every call may block until its
// deadline, so calls belong on worker threads, never on the event loop.
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
  std::string shim_path;  // path of carma-shim, which switches to the user
  std::string program;    // collocation.mps_control: a name in $PATH, or an absolute path
  std::string dir;        // collocation.mps_dir
  std::map<std::string, std::string> environment;  // additional variables of the control daemon
};

// The observed state of a server.
struct MpsServer {
  base::ProcessId process;
  MpsServerState state = MpsServerState::kUnknown;
  std::string name = {};  // only in protocol 3; empty if the daemon uses protocol 2
  Result<std::vector<pid_t>> clients = {};
};

// Features of MPS, found by briefly starting a control daemon.
struct MpsAbilities {
  bool tells_state = false;  // reports a server's state; branch 550 and newer
  bool logs = false;         // writes lines to its log
  bool partitions = false;   // can start with static SM partitions; CUDA 13.1 and newer
};

class MpsControl {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  MpsControl(MpsSetup setup, MpsServerId id)
      : setup_(std::move(setup)), id_(std::move(id)), logs_(setup_.dir, id_) {}

  // Returns a copy of this control. A daemon that the copy starts shows only the given GPUs of the
  // server. CUDA ignores all GPUs after one that it cannot find, so GPUs that do not work must be
  // left out. gpus: as in MpsServerId::gpus; empty for all.
  MpsControl Showing(const std::string& gpus) const;
  // Checks that the running daemon, if any, shows these GPUs. Stops an unused daemon if one of
  // these GPUs was left out at its start, or if it shows a GPU that no longer works. readable: as
  // in Showing(). unused: no task uses the server, but other processes may. Returns kConflict if
  // the server is used and lacks a GPU.
  Result<Unit> MakeShow(const std::vector<std::string>& gpus, const std::string& readable,
                        bool unused, Deadline deadline) const;

  // Finds the control daemon for the server's folder: the process that holds the folder's lock
  // (mps_files.h), if it belongs to the server's user. Does not contact the daemon.
  std::optional<base::ProcessId> Daemon() const;

  // Starts the daemon and the server if they are not running, and waits until the server accepts
  // clients. If the server exits during startup, fails immediately with the cause from its log.
  // Kills a daemon that this call has started if it does not respond in time. partitions: a daemon
  // started by this call should divide the SMs if the driver supports that. Every error message is
  // a full sentence. Returns kNotFound (no such program), kUnavailable (refused, exited, no reply
  // in time, the server is in a faulted state), kDenied or kIo.
  Result<MpsServer> Ready(Deadline deadline, bool partitions = false) const;
  // Starts the daemon, queries it and stops it again, without starting a server. The folder must be
  // unused. Returns the same errors as Ready().
  Result<MpsAbilities> Try(Deadline deadline) const;
  // The running server; empty if it or the daemon is down. Fails if a reply is late or invalid.
  // known: the server found by the last call. If it is still running, one query is enough.
  Result<std::optional<MpsServer>> Look(
      Deadline deadline, const std::optional<base::ProcessId>& known = std::nullopt) const;
  // Asks the server itself whether it has clients, because carmad may not know all of them. A
  // finished task may leave processes behind, and some clients may be older than the current
  // collocation.mps_servers setting.
  bool HasClients(Deadline deadline) const;
  // Terminates the client's GPU context cleanly. The process continues and gets error 810.
  Result<Unit> TerminateClient(const MpsServer& server, pid_t client, Deadline deadline) const;

  // ---- static SM partitions of a server with one GPU ----
  // Returns true if the running daemon divides the SMs, so that each client needs a partition.
  bool DividesSms() const;
  Result<MpsPartitions> Partitions(Deadline deadline) const;
  // Creates a partition with this share of the SMs. Returns kConflict if other partitions leave too
  // few SMs, and kUnavailable if the daemon refuses for a different reason or does not reply.
  Result<MpsPartition> AddPartition(double share, Deadline deadline) const;
  // Returns kUnavailable if the daemon does not reply. The content of the reply is not checked.
  Result<Unit> RemovePartition(const std::string& partition, Deadline deadline) const;

  // Stops the daemon and the server, kills their remaining processes at the deadline, and removes
  // the files in the pipe directory. Use it only for a server without clients.
  void Quit(Deadline deadline) const;

  const MpsServerId& id() const { return id_; }

 private:
  Result<Unit> Start(Deadline deadline, bool partitions) const;
  // Returns true if the control program's help mentions static SM partitions.
  bool OffersPartitions(Deadline deadline) const;
  // Returns the control program's option for a shared server. Returns kDenied if the program has no
  // such option or this process is not root. Fails if the program's help cannot be read.
  Result<std::string> MultiUserOption(Deadline deadline) const;
  void EndLate() const;
  // asked: where the logs ended before this object requested the server. said: the daemon's reply
  // to that request.
  bool TakesClients(const MpsServer& server, const std::optional<MpsLogMark>& asked) const;
  base::Error WhyNoServer(const MpsLogMark& asked, const std::string& said) const;
  void End(const base::ProcessId& daemon, Deadline deadline) const;
  // Looks for the server with this PID, using protocol 2.
  Result<std::optional<MpsServer>> LookFor(pid_t pid, Deadline deadline) const;
  Result<std::optional<MpsServer>> LookForNamed(Deadline deadline) const;
  Result<std::string> StartServer(Deadline deadline) const;
  // Sends protocol 2 commands, one per line, and returns the replies. Fails on timeout.
  Result<std::string> Ask(const std::string& command, Deadline deadline) const;
  Result<std::string> Run(const std::vector<std::string>& arguments, const std::string& input,
                          Deadline deadline) const;

  MpsSetup setup_;
  MpsServerId id_;
  MpsLogs logs_;
};

// Tests whether MPS works by running MpsControl::Try() as this process's user in a temporary
// folder; ignores setup.dir. shared: test a server for all users. Returns kDenied if this driver or
// user cannot run a server.
Result<MpsAbilities> TryMps(MpsSetup setup, bool shared, MpsControl::Deadline deadline);

// Finds the control daemons that an earlier carmad left running below setup.dir, and returns their
// servers. gpus: the sets of GPUs to look for, each written as in MpsServerId::gpus.
std::vector<MpsServerId> FindMpsServers(const MpsSetup& setup,
                                        const std::vector<std::string>& gpus);

}  // namespace carma::task
