// Pure functions that find a node with room for a Slurm job that waits on a full node. Slurm never
// moves a job to another node by itself, so the job is requeued and excludes its old node for a
// while (job_return.h).
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
  std::int64_t gib = 0, used_gib = 0;  // of gres/carma, in total and in use
  std::int64_t free_cpus = 0;
  std::int64_t free_mib = 0;  // of the node's host memory
  friend bool operator==(const Node&, const Node&) = default;
};

// Parses the output of `scontrol --details --oneliner show node`. Lines that do not describe a node
// are skipped.
std::vector<Node> ReadNodes(std::string_view text);
// The nodes that a job excludes, from the output of `squeue --format=%A|%x|`. Empty if Slurm does
// not list the job.
std::optional<std::string> ExcludedNodes(std::string_view text, std::uint64_t id);

// Returns a clause that explains why the job must stay on its node, for example because its user
// chose the node or it uses several nodes. Empty if the job may move.
std::string WhyItStays(const Job& job);
// A node with room for the job; empty if there is none. After the move, the job is alone on the
// node, or at most half of the node's GPU memory is allocated.
std::optional<std::string> NodeFor(const Job& job, std::span<const Node> nodes);

}  // namespace carma::slurm
