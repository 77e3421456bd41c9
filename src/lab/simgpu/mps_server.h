// The server process of a simulated MPS: a child of the control daemon that serves the clients of
// one user and lets a fault of one affect all of them.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "lab/simgpu/mps_wire.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

// Clients per GPU, as in NVIDIA's MPS since Volta.
inline constexpr int kMaxMpsClients = 48;

// Memory of the server's own context on a GPU, similar to real ones.
inline constexpr std::int64_t kMpsServerMib = 30;

// Writes one line to server.log or control.log; ignores failures.
void MpsLog(const MpsFolders& folders, std::string_view file, std::string_view who,
            const std::string& text);

class MpsServer {
 public:
  // listener: the socket for clients; channel: the connection to the control daemon.
  MpsServer(const MpsFolders& folders, base::UniqueFd listener, base::UniqueFd channel,
            MpsWelcome terms)
      : folders_(folders),
        listener_(std::move(listener)),
        channel_(base::LineSocket(std::move(channel))),
        terms_(std::move(terms)) {}

  // Runs until the daemon sends quit, or until the daemon and the last client are gone. Returns the
  // exit status; exits at once if a client was killed while computing.
  int Run();

 private:
  struct Client {
    base::LineSocket socket;
    pid_t pid = 0;
    bool joined = false;
    std::string partition;       // of the SMs; empty: none
    bool affected = false;       // by a fault: no new clients until it is gone
    std::set<std::string> uses;  // "0 /path/of/the/state": the GPUs that it computes on
    bool terminated = false;     // was asked to end
  };

  void Note(const std::string& text) const;
  bool Faulted() const;
  void Accept();
  // False if the daemon is gone.
  bool ServeDaemon();
  std::string Answer(const std::string& request);
  std::string Terminate(pid_t pid);
  // False if the client is gone.
  bool ServeClient(Client& client);
  void Admit(Client& client, std::string_view partition);
  void ShowItself(std::string_view place_and_path);
  void FaultOf(const Client& culprit);
  void Lose(const Client& client);
  int JoinedClients() const;

  MpsFolders folders_;
  base::UniqueFd listener_;
  base::LineSocket channel_;
  MpsWelcome terms_;
  std::vector<Client> clients_;
  std::map<std::string, double, std::less<>> partitions_;  // percent of the SMs, where divided
  // The server's own residencies on its clients' GPUs, so that it is listed there.
  std::map<std::string, std::unique_ptr<simgpu::Server>> gpus_;
  std::map<std::string, std::unique_ptr<Residency>> residencies_;
  bool quit_ = false;
};

}  // namespace carma::simgpu
