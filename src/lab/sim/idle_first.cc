// Places tasks from one first-in-first-out queue that feeds several servers.
#include "lab/sim/placing.h"

namespace carma::sim {

IdleFirst::IdleFirst(const Servers& servers, const Machines& machines, const Jobs& jobs,
                     Candidates& candidates)
    : servers_(servers),
      machines_(machines),
      jobs_(jobs),
      candidates_(candidates),
      key_of_(servers.size()) {
  for (std::uint32_t i = 0; i < servers.size(); ++i) Changed(i);
}

void IdleFirst::Add(std::span<const JobIndex> jobs) {
  queue_.insert(queue_.end(), jobs.begin(), jobs.end());
}

void IdleFirst::Changed(std::uint32_t index) {
  const Server& server = servers_[index];
  std::optional<Key> key;
  if (server.queue.waiting == server.queue.recovering)
    key = Key{-machines_.IdleGpus(index), server.launched, index};
  std::optional<Key>& old = key_of_[index];
  if (key == old) return;
  if (old) open_.erase(*old);
  if (key) open_.insert(*key);
  old = key;
}

std::optional<std::uint32_t> IdleFirst::ServerFor(const Job& job) const {
  const std::shared_ptr<Alike> alike = candidates_.AlikeOf(job);
  for (const Key& key : open_) {
    if (candidates_.CouldTake(*alike, std::get<2>(key))) return std::get<2>(key);
  }
  // If a busy server could take the task once that server is idle, the task waits.
  if (candidates_.AnyCould(*alike)) return std::nullopt;
  return std::get<2>(*open_.begin());  // no server can take it; this one will reject it
}

std::optional<IdleFirst::Placed> IdleFirst::Next() {
  if (queue_.empty() || open_.empty()) return std::nullopt;
  const JobIndex head = queue_.front();
  const std::optional<std::uint32_t> server = ServerFor(jobs_[head]);
  if (!server) return std::nullopt;
  queue_.pop_front();
  return Placed{head, *server};
}

}  // namespace carma::sim
