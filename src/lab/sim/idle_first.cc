// Places tasks from one first-in-first-out queue that feeds several servers.
#include "lab/sim/idle_first.h"

namespace carma::sim {

IdleFirst::IdleFirst(const RunOptions& options, const Layout& layout, const Servers& servers,
                     const Machines& machines, const Jobs& jobs, Predictions& predictions)
    : options_(options),
      layout_(layout),
      servers_(servers),
      machines_(machines),
      jobs_(jobs),
      predictions_(predictions),
      key_of_(layout.servers().size()) {}

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

std::optional<std::uint32_t> IdleFirst::ServerFor(const Job& job) {
  const core::TaskRequest request = RequestOf(options_, layout_, job);
  const std::optional<core::Estimate> estimate = predictions_.EstimateOf(job);
  std::vector<std::optional<bool>> fits;  // by kind of server: whether the task fits
  const auto could_take = [&](std::uint32_t index) {
    const std::uint32_t kind = layout_.servers()[index].kind;
    if (kind >= fits.size()) fits.resize(kind + 1);
    std::optional<bool>& known = fits[kind];
    if (!known) known = !servers_[index].core.scheduler().NeverFits(request, estimate);
    return *known;
  };
  for (const Key& key : open_) {
    if (could_take(std::get<2>(key))) return std::get<2>(key);
  }
  // If a busy server could take the task once that server is idle, the task waits.
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    if (could_take(i)) return std::nullopt;
  }
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
