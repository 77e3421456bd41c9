// Slurm's view of its nodes: counts of a generic resource, booked by tasks until their time limits.
// Slurm sees neither memory nor activity.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "lab/sim/above.h"

namespace carma::sim {

// A task's request to one node.
struct CountAsked {
  int gpus = 1;
  // Memory per GPU; all of it by default.
  std::int64_t memory_mib = std::numeric_limits<std::int64_t>::max();
  bool whole = false;  // requests the whole node exclusively
};

class NodeCounts {
 public:
  explicit NodeCounts(Gres gres) : gres_(gres) {}

  // usable_mib: usable memory of each of the node's GPUs. Nodes are numbered from 0.
  void AddNode(std::span<const std::int64_t> usable_mib);

  // Requested memory is rounded up to whole GiB and capped at the memory of the GPU (or node).
  bool Fits(std::uint32_t node, const CountAsked& asked) const { return Fits(nodes_[node], asked); }
  // Books a request that fits. Returns the chosen GPUs; none with Gres::kCarma.
  std::vector<std::uint32_t> Book(std::uint32_t node, std::uint64_t task, const CountAsked& asked,
                                  base::Time ends);
  void Release(std::uint32_t node, std::uint64_t task);

  // The earliest time at which the request fits, assuming that every task on the node runs until
  // its time limit. Tasks past their limits count as ending now. Empty if the request does not even
  // fit on an empty node.
  std::optional<base::Time> FitsFrom(std::uint32_t node, const CountAsked& asked,
                                     base::Time now) const;
  // True if `other` fits now and leaves enough for `asked` at time `at`. Assumes that `other` runs
  // past `at`.
  bool FitsBeside(std::uint32_t node, const CountAsked& asked, base::Time at,
                  const CountAsked& other) const;

  int GpusBooked(std::uint32_t node) const { return nodes_[node].gpus_booked; }
  bool Empty(std::uint32_t node) const { return nodes_[node].booked.empty(); }

 private:
  struct Part {
    std::uint32_t pool = 0;
    std::int64_t units = 0;
  };
  struct Booked {
    std::uint64_t task = 0;
    base::Time ends{};
    int gpus = 0;
    std::vector<Part> parts;
  };
  // A node's pools are its GPUs, or the node itself if its whole memory is counted as one pool.
  struct Node {
    std::vector<std::int64_t> all;
    std::vector<std::int64_t> left;
    std::vector<Booked> booked;  // in booking order
    int gpus = 0;
    int gpus_booked = 0;
  };
  // Units that the request needs from each pool, and the number of pools that it uses.
  std::int64_t UnitsOf(const Node& node, std::uint32_t pool, const CountAsked& asked) const;
  int PoolsOf(const Node& node, const CountAsked& asked) const;
  bool Fits(const Node& node, const CountAsked& asked) const;
  // The pools that the request uses, with the units that it takes from each. The request must fit.
  std::vector<Part> PartsFor(const Node& node, const CountAsked& asked) const;
  // The node after all tasks that end by `at` have left.
  static Node At(const Node& node, base::Time at);

  Gres gres_;
  std::vector<Node> nodes_;
};

}  // namespace carma::sim
