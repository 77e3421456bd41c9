// The attempts that are clients of one user's MPS server, and which of its processes have broken
// under them. A value: its only I/O is to check whether a process lives.
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

// What happened to the server of an attempt.
struct MpsEvidence {
  bool broke = false;  // it died, was replaced, or is faulted
  // Another attempt on this server that has been held responsible.
  std::optional<core::TaskId> blamed;
};

class MpsClients {
 public:
  using Key = std::pair<core::TaskId, int>;  // task and attempt
  using Time = std::chrono::steady_clock::time_point;

  bool empty() const { return clients_.empty(); }
  std::size_t size() const { return clients_.size(); }
  // A client whose server process is not known yet.
  void Add(const Key& who, Time now) { clients_[who] = {std::nullopt, now}; }
  void Remove(const Key& who) { clients_.erase(who); }
  // Records that the server has now accepted the client. False: the client has already left.
  bool Seat(const Key& who, const base::ProcessId& server, Time now);
  // Sets the server that the client has had since it was added. False: the client has already left.
  bool Find(const Key& who, const base::ProcessId& server);

  // Records which servers of these clients have died, been replaced or faulted, as a check of the
  // server has shown. Returns the new ones, each with what happened to it.
  std::vector<std::pair<base::ProcessId, std::string_view>> NoteServer(
      const std::optional<task::MpsServer>& server, Time now);
  // Reports that this client ended by its own fault, which affected its neighbours.
  void Blame(const Key& who, Time now);
  MpsEvidence EvidenceOf(const Key& who, Time now) const;

 private:
  struct Client {
    std::optional<base::ProcessId> server;  // empty: not known (yet)
    Time since;
  };
  struct Blamed {
    Key who;
    std::optional<base::ProcessId> server;
    Time when;
  };
  // A server that was seen dead or faulted. Later clients are not affected.
  struct Broken {
    base::ProcessId server;
    Time when;
  };

  std::map<Key, Client> clients_;
  std::optional<Blamed> blamed_;
  std::vector<Broken> broken_;
};

}  // namespace carma::daemon
