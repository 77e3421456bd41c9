#include "daemon/engine/mps_client_check.h"

#include <algorithm>

namespace carma::daemon {

void MpsClientCheck::Seen(const Key& who, const std::vector<pid_t>& pids) {
  seen_[who] = {pids.begin(), pids.end()};
}

void MpsClientCheck::Forget(const Key& who) {
  for (Processes* each : {&seen_, &missed_, &outside_}) each->erase(who);
}

MpsClientCheck::Processes MpsClientCheck::Compare(const Processes& before,
                                                  const std::vector<pid_t>& clients) {
  Processes missed, outside, fresh;
  for (const auto& [who, pids] : before) {
    const auto now = seen_.find(who);
    if (now == seen_.end()) continue;
    for (const pid_t pid : pids) {
      if (!now->second.contains(pid) || std::ranges::find(clients, pid) != clients.end()) continue;
      missed[who].insert(pid);
      if (!missed_[who].contains(pid)) continue;
      outside[who].insert(pid);
      if (!outside_[who].contains(pid)) fresh[who].insert(pid);
    }
  }
  missed_ = std::move(missed);
  outside_ = std::move(outside);
  return fresh;
}

}  // namespace carma::daemon
