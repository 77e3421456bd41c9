#include "daemon/engine/mps_clients.h"

#include <algorithm>

namespace carma::daemon {
namespace {

// Clients affected by the same fault exit within this time of each other.
constexpr auto kBlameSpan = std::chrono::seconds(30);

}  // namespace

bool MpsClients::Seat(const Key& who, const base::ProcessId& server, Time now) {
  const auto client = clients_.find(who);
  if (client == clients_.end()) return false;
  client->second = {server, now};
  return true;
}

bool MpsClients::Find(const Key& who, const base::ProcessId& server) {
  const auto client = clients_.find(who);
  if (client == clients_.end()) return false;
  client->second.server = server;
  return true;
}

std::vector<std::pair<base::ProcessId, std::string_view>> MpsClients::NoteServer(
    const std::optional<task::MpsServer>& server, Time now) {
  std::vector<std::pair<base::ProcessId, std::string_view>> fresh;
  const auto known = [this](const base::ProcessId& id) {
    return std::ranges::find(broken_, id, &Broken::server);
  };
  const bool faulted = server && server->state == task::MpsServerState::kFault;
  if (faulted && known(server->process) != broken_.end()) {
    known(server->process)->when = now;
  } else if (faulted) {
    fresh.emplace_back(server->process, "a client's fault");
    broken_.push_back({server->process, now});
  }
  for (const auto& [who, client] : clients_) {
    // Checks the server process itself, because it may outlive its control daemon and still be
    // computing.
    if (!client.server || base::Alive(*client.server)) continue;
    if (known(*client.server) != broken_.end()) continue;
    fresh.emplace_back(*client.server, "it has ended");
    broken_.push_back({*client.server, now});
  }
  std::erase_if(broken_, [&](const Broken& each) {
    const bool still = faulted && server->process == each.server;
    return !still && std::ranges::none_of(clients_, [&](const auto& its) {
      return its.second.server == each.server && its.second.since < each.when;
    });
  });
  return fresh;
}

void MpsClients::Blame(const Key& who, Time now) {
  const auto client = clients_.find(who);
  if (client != clients_.end()) blamed_ = Blamed{who, client->second.server, now};
}

MpsEvidence MpsClients::EvidenceOf(const Key& who, Time now) const {
  MpsEvidence evidence;
  const auto found = clients_.find(who);
  if (found == clients_.end()) return evidence;
  const Client& client = found->second;
  evidence.broke = client.server && std::ranges::any_of(broken_, [&](const Broken& each) {
                     return each.server == *client.server && client.since < each.when;
                   });
  // A client can be affected only if it was attached when the fault occurred.
  if (blamed_ && blamed_->who != who && blamed_->server == client.server &&
      client.since < blamed_->when && now - blamed_->when < kBlameSpan)
    evidence.blamed = blamed_->who.first;
  return evidence;
}

}  // namespace carma::daemon
