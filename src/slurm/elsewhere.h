// Moves a Slurm job that waits on a full node to a node with room. Slurm decides only once where a
// job runs, so the job is requeued and excludes its node for a while (job_return.h). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/job.h"

namespace carma::slurm {

struct Node {
  std::string name;
  bool takes_jobs = false;  // idle or partly used, and not drained, reserved or planned
  std::vector<std::string> partitions;
  std::string features;
  std::int64_t gib = 0, used_gib = 0;  // of gres/carma
  std::int64_t free_cpus = 0;
  std::int64_t free_mib = 0;  // of the node's memory
  friend bool operator==(const Node&, const Node&) = default;
};

// Lines of `scontrol --details --oneliner show node`. Other lines are skipped.
std::vector<Node> ReadNodes(std::string_view text);
// The nodes that a job excludes, from the output of `squeue --format=%A|%x|`. Empty if Slurm does
// not show the job.
std::optional<std::string> ExcludedNodes(std::string_view text, std::uint64_t id);

// Why the job must stay on its node, as a clause: it is not a restartable batch job of one node, or
// its user has chosen the node. Empty if it may move.
std::string WhyItStays(const Job& job);
// A node with room for the job: at most half of the node's GPU memory is allocated once the job is
// there, or the job is alone on it. Empty if there is none.
std::optional<std::string> NodeFor(const Job& job, std::span<const Node> nodes);

}  // namespace carma::slurm
