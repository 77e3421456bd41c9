// The queue above several servers. It is first in, first out: its first task goes to a server whose
// main queue is empty, the one with the most idle GPUs, then the one with the fewest tasks, then
// the lowest number. There the server's own core decides. So a server never hoards tasks that
// another could start, and each task is considered by one core only.

#include "lab/sim/simulation.h"

namespace carma::sim {

void Simulation::Reopen(std::uint32_t index) {
  if (cluster_.servers.size() == 1 || HasAbove()) return;
  Node& node = nodes_[index];
  std::optional<OpenKey> key;
  if (node.waiting == node.recovering) key = OpenKey{-node.idle_gpus, node.launched, index};
  if (key == node.open) return;
  if (node.open) open_.erase(*node.open);
  if (key) open_.insert(*key);
  node.open = key;
}

std::optional<std::uint32_t> Simulation::ServerFor(const Job& job) {
  const core::TaskRequest request = RequestOf(job);
  const std::optional<core::Estimate> estimate = EstimateOf(job);
  std::vector<std::optional<bool>> fits;  // by kind of server
  const auto could_take = [&](std::uint32_t index) {
    const Node& node = nodes_[index];
    if (node.kind >= fits.size()) fits.resize(node.kind + 1);
    std::optional<bool>& known = fits[node.kind];
    if (!known) known = !node.core.scheduler().NeverFits(request, estimate);
    return *known;
  };
  for (const OpenKey& key : open_) {
    if (could_take(std::get<2>(key))) return std::get<2>(key);
  }
  // A server that is busy now may be the only one that is large enough.
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (could_take(i)) return std::nullopt;
  }
  return std::get<2>(*open_.begin());  // which refuses it
}

void Simulation::Dispatch() {
  if (HasAbove()) return DispatchAbove();
  while (!cluster_queue_.empty() && !open_.empty()) {
    const JobIndex head = cluster_queue_.front();
    const std::optional<std::uint32_t> node = ServerFor(jobs_[head]);
    if (!node) return;
    cluster_queue_.pop_front();
    Submit(*node, {&head, 1});
  }
}

}  // namespace carma::sim
