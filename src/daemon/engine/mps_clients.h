// Records which attempts are clients of one user's MPS server, and which server processes have
// broken. Its only I/O is checking whether a process is alive.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process_id.h"
#include "core/values/ids.h"
#include "task/mps/mps_control.h"

namespace carma::daemon {

// What happened to an attempt's MPS server.
struct MpsEvidence {
  bool broke = false;  // the server died, was replaced, or has a fault
  // Another task on this server that was blamed for a fault.
  std::optional<core::TaskId> blamed;
};

class MpsClients {
 public:
  using Key = std::pair<core::TaskId, int>;  // task and attempt
  using Time = std::chrono::steady_clock::time_point;

  bool empty() const { return clients_.empty(); }
  std::size_t size() const { return clients_.size(); }
  // Adds a client before its server process is known.
  void Add(const Key& who, Time now) { clients_[who] = {std::nullopt, now}; }
  void Remove(const Key& who) { clients_.erase(who); }
  // Records that the server has accepted the client. Returns false if the client has already left.
  bool Seat(const Key& who, const base::ProcessId& server, Time now);
  // Sets the server process that the client has been using since it was added. Returns false if the
  // client has already left.
  bool Find(const Key& who, const base::ProcessId& server);

  // Records which of the clients' servers have died, been replaced or had a fault, as shown by a
  // server check. Returns the servers that broke since the last call, each with the reason.
  std::vector<std::pair<base::ProcessId, std::string_view>> NoteServer(
      const std::optional<task::MpsServer>& server, Time now);
  // Blames this client for a fault that ended it and affected its neighbours.
  void Blame(const Key& who, Time now);
  MpsEvidence EvidenceOf(const Key& who, Time now) const;

 private:
  struct Client {
    std::optional<base::ProcessId> server;  // empty if unknown
    Time since;
  };
  struct Blamed {
    Key who;
    std::optional<base::ProcessId> server;
    Time when;
  };
  // A server found dead or faulty. Clients that joined later are not affected.
  struct Broken {
    base::ProcessId server;
    Time when;
  };

  std::map<Key, Client> clients_;
  std::optional<Blamed> blamed_;
  std::vector<Broken> broken_;
};

}  // namespace carma::daemon
