// The control daemon of the simulated MPS: its sockets, its server and the commands that it
// accepts. Private to carma-simmps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "lab/simgpu/mps_control.h"
#include "lab/simgpu/mps_server.h"
#include "lab/simgpu/mps_wire.h"

namespace carma::simgpu {

class ControlDaemon {
 public:
  ControlDaemon(MpsFolders folders, base::UniqueFd lock, const MpsDaemonOptions& options);

  // Creates the daemon's sockets and files. From this point on, clients can connect and wait.
  Result<Unit> Open();
  // Serves clients and commands until a command stops the daemon. Returns the process's exit code.
  int Run();

 private:
  using Words = std::vector<std::string_view>;
  struct Server {
    pid_t pid = 0;
    uid_t uid = 0;
    std::string path;  // path of its socket
    base::LineSocket channel;
  };
  struct Command {
    std::string_view name;
    std::size_t arguments;  // minimum number of arguments
    std::string (ControlDaemon::*run)(const Words&);
  };

  void Note(const std::string& text) const { MpsLog(folders_, "control.log", "Control", text); }
  bool Is535() const { return MpsBehaves(folders_, "r535"); }

  // ---- mps_control_daemon.cc ----
  void ReapServer();
  void ServePeer(const base::UniqueFd& listener);
  void ServeClient(base::LineSocket& peer, uid_t uid, std::string_view partition);
  // Starts the server unless it is already running. Returns true if it is running now.
  bool StartServer(uid_t uid);
  bool IsServer(std::string_view pid) const;
  // Returns the server's reply as one line. Empty if there is no server or it does not reply; its
  // process is then considered to have exited.
  std::optional<std::string> Ask(const std::string& request);
  void Shutdown();

  // ---- mps_control_answers.cc: the program that sent a command prints its answer ----
  std::string Execute(std::string_view line);
  std::string ExecuteThree(const Words& words);
  std::string Refuse(const std::string& why);
  std::string NamedServers();
  std::string NamedClients(std::string_view server);
  std::string StartServerCommand(const Words& words);
  std::string ServerList(const Words&);
  std::string ServerStatus(const Words& words);
  std::string ClientList(const Words& words);
  std::string TerminateClient(const Words& words);
  std::string Quit(const Words& words);

  // ---- static SM partitions ----
  // A GPU that the daemon sees. Commands can name it by a prefix of its UUID.
  struct Gpu {
    std::string uuid;
    std::map<std::string, int> partitions;  // number of chunks by partition id
    int UsedChunks() const;
  };
  Gpu* FindGpu(std::string_view uuid);
  // Percentage of the SMs in the partition with this name (as in CUDA_MPS_SM_PARTITION); empty if
  // there is none.
  std::optional<double> PartitionPercent(std::string_view name);
  std::set<std::string> UsedPartitions();
  std::string ChangePartitions(const Words& words);
  std::string AddPartition(Gpu& gpu, std::string_view chunks);
  std::string RemovePartition(Gpu& gpu, std::string_view id);
  std::string ListPartitions(const Words&);

  MpsFolders folders_;
  base::UniqueFd lock_, listener_, privileged_, signals_;
  MpsDaemonOptions options_;
  std::vector<Gpu> gpus_;  // empty unless the daemon partitions the SMs
  int partitions_made_ = 0;
  MpsWelcome terms_;
  std::optional<Server> server_;
  int started_ = 0;
  const bool three_ = base::GetEnv(kMpsProtocolVariable) == "3";
  bool refused_ = false;                      // the program that sent the current command must fail
  bool failed_ = false;                       // a server has failed
  std::vector<base::LineSocket> unanswered_;  // peers that a hanging daemon leaves waiting
  std::vector<base::LineSocket> quitters_;    // peers waiting for the daemon to exit
  bool quitting_ = false;                     // no new clients are accepted
  std::optional<std::int64_t> quit_at_ns_;    // the daemon exits by this time
};

// Called in a new child process. Closes all descriptors except the standard ones and these two,
// which may be the same.
void CloseAllBut(int a, int b);

}  // namespace carma::simgpu
