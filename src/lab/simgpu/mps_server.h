// The server process of a simulated MPS: a child of the control daemon that keeps the clients of
// one user together and makes them suffer together.
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

// As NVIDIA's: 48 clients of a GPU since Volta.
inline constexpr int kMaxMpsClients = 48;

// What the server's own context takes of a GPU, in the size of the real ones.
inline constexpr std::int64_t kMpsServerMib = 30;

// One line of server.log or control.log; whoever cannot write there stays silent.
void MpsLog(const MpsFolders& folders, std::string_view file, std::string_view who,
            const std::string& text);

class MpsServer {
 public:
  // listener: where clients come; channel: to the control daemon.
  MpsServer(const MpsFolders& folders, base::UniqueFd listener, base::UniqueFd channel,
            MpsWelcome terms)
      : folders_(folders),
        listener_(std::move(listener)),
        channel_(base::LineSocket(std::move(channel))),
        terms_(std::move(terms)) {}

  // Until the daemon says quit, or is gone and the last client too. The process's exit status; ends
  // the process at once when a client died that it cannot do without.
  int Run();

 private:
  struct Client {
    base::LineSocket socket;
    pid_t pid = 0;
    bool joined = false;
    bool affected = false;    // by a fault: the server takes no client until it is gone
    std::set<std::string> uses;  // "0 /path/of/the/state": the GPUs that it computes on
    bool terminated = false;  // told to end: its death is no surprise
  };

  void Note(const std::string& text) const;
  bool Faulted() const;
  void Accept();
  // False: the daemon is gone.
  bool ServeDaemon();
  std::string Answer(const std::string& request);
  std::string Terminate(pid_t pid);
  // False: the client is gone.
  bool ServeClient(Client& client);
  void Admit(Client& client);
  void ShowItself(std::string_view place_and_path);
  void FaultOf(const Client& culprit);
  void Lose(const Client& client);
  int JoinedClients() const;

  MpsFolders folders_;
  base::UniqueFd listener_;
  base::LineSocket channel_;
  MpsWelcome terms_;
  std::vector<Client> clients_;
  // Its own places on the GPUs of its clients, where it shows itself.
  std::map<std::string, std::unique_ptr<simgpu::Server>> gpus_;
  std::map<std::string, std::unique_ptr<Residency>> residencies_;
  bool quit_ = false;
};

}  // namespace carma::simgpu
