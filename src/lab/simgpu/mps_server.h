// The server process of the simulated MPS. It is a child of the control daemon and serves the
// clients of one user. A fault in one client affects all of them.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "lab/simgpu/mps_wire.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// Maximum number of clients per GPU, as in NVIDIA's MPS for Volta and later GPUs.
inline constexpr int kMaxMpsClients = 48;

// Memory of the server's own context on a GPU, similar to that of real servers.
inline constexpr std::int64_t kMpsServerMib = 30;

// Appends one line to server.log or control.log; ignores failures.
void MpsLog(const MpsFolders& folders, std::string_view file, std::string_view who,
            const std::string& text);

class MpsServer {
 public:
  // listener: socket for clients. channel: connection to the control daemon.
  MpsServer(const MpsFolders& folders, base::UniqueFd listener, base::UniqueFd channel)
      : folders_(folders), listener_(std::move(listener)), channel_(std::move(channel)) {}

  // Runs until the daemon sends quit, or until the daemon and the last client are gone. Returns the
  // exit status. If a client was killed while computing, the server exits immediately.
  int Run();

 private:
  struct Client {
    base::LineSocket socket;
    pid_t pid = 0;
    bool joined = false;
    std::string partition;  // SM partition; empty: none
    bool affected = false;  // affected by a fault: no new clients can join until this one is gone
    std::set<std::string> uses;  // GPUs on which it computes, as "0 /path/of/the/state"
    bool terminated = false;     // the client was asked to exit or has disconnected
  };

  void Note(const std::string& text) const { MpsLog(folders_, "server.log", "Server", text); }
  bool Faulted() const;
  void Accept();
  // Returns false if the daemon is gone.
  bool ServeDaemon();
  std::string Answer(const std::string& request);
  std::string Terminate(pid_t pid);
  // Returns false if the client is gone.
  bool ServeClient(Client& client);
  void Admit(Client& client, std::string_view partition);
  void ShowItself(std::string_view place_and_path);
  void FaultOf(const Client& culprit);
  void Lose(const Client& client);

  MpsFolders folders_;
  base::UniqueFd listener_;
  base::LineSocket channel_;
  std::vector<Client> clients_;
  // Registrations of this process on the GPUs of its clients, keyed by Client::uses. In each pair,
  // the residency is destroyed first, because it uses the simulated GPU server.
  std::map<std::string, std::pair<std::unique_ptr<simgpu::Server>, std::unique_ptr<Residency>>>
      residencies_;
  bool quit_ = false;
};

}  // namespace carma::simgpu
