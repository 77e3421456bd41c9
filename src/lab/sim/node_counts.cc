#include "lab/sim/node_counts.h"

#include <algorithm>
#include <numeric>

#include "base/result.h"

namespace carma::sim {
namespace {

constexpr std::int64_t kMibOfUnit = 1024;

}  // namespace

void NodeCounts::AddNode(std::span<const std::int64_t> usable_mib) {
  Node& node = nodes_.emplace_back();
  for (const std::int64_t mib : usable_mib)
    node.all.push_back(gres_ == Gres::kGpu ? 1 : std::max<std::int64_t>(1, mib / kMibOfUnit));
  if (gres_ == Gres::kCarma) {
    const std::int64_t whole_mib = std::accumulate(usable_mib.begin(), usable_mib.end(), 0LL);
    node.all = {std::max<std::int64_t>(1, whole_mib / kMibOfUnit)};
  }
  node.left = node.all;
  node.gpus = static_cast<int>(usable_mib.size());
}

std::int64_t NodeCounts::UnitsOf(const Node& node, std::uint32_t pool,
                                 const CountAsked& asked) const {
  const std::int64_t all = node.all[pool];
  // A task on several GPUs requests whole GPUs instead of shards.
  const bool gpus = gres_ != Gres::kCarma && asked.gpus > 1;
  if (asked.whole || gpus) return all;
  // Rounding can make the node's total smaller than the sum of its GPUs, so a GPU's limit is an
  // equal share of the total.
  const std::int64_t most =
      gres_ == Gres::kCarma ? std::max<std::int64_t>(1, all / node.gpus) : all;
  const std::int64_t each = asked.memory_mib / kMibOfUnit >= most
                                ? most
                                : (asked.memory_mib + kMibOfUnit - 1) / kMibOfUnit;
  return gres_ == Gres::kCarma ? std::min(all, each * asked.gpus) : each;
}

int NodeCounts::PoolsOf(const Node& node, const CountAsked& asked) const {
  if (asked.whole) return static_cast<int>(node.all.size());
  return gres_ == Gres::kCarma ? 1 : asked.gpus;
}

bool NodeCounts::Fits(const Node& node, const CountAsked& asked) const {
  int missing = PoolsOf(node, asked);
  for (std::uint32_t i = 0; i < node.all.size() && missing > 0; ++i) {
    if (UnitsOf(node, i, asked) <= node.left[i]) --missing;
  }
  return missing == 0;
}

std::vector<NodeCounts::Part> NodeCounts::PartsFor(const Node& node,
                                                   const CountAsked& asked) const {
  std::vector<Part> parts;
  for (std::uint32_t i = 0; i < node.all.size() && std::ssize(parts) < PoolsOf(node, asked); ++i) {
    const std::int64_t units = UnitsOf(node, i, asked);
    if (units <= node.left[i]) parts.push_back({i, units});
  }
  return parts;
}

std::vector<std::uint32_t> NodeCounts::Book(std::uint32_t index, std::uint64_t task,
                                            const CountAsked& asked, base::Time ends) {
  Node& node = nodes_[index];
  CARMA_CHECK(Fits(node, asked), "a booking exceeds the capacity");
  std::vector<Part> parts = PartsFor(node, asked);
  std::vector<std::uint32_t> gpus;
  for (const Part& part : parts) {
    node.left[part.pool] -= part.units;
    if (gres_ != Gres::kCarma) gpus.push_back(part.pool);
  }
  node.gpus_booked += asked.gpus;
  node.booked.push_back({task, ends, asked.gpus, std::move(parts)});
  return gpus;
}

void NodeCounts::Release(std::uint32_t index, std::uint64_t task) {
  Node& node = nodes_[index];
  const auto booked = std::ranges::find(node.booked, task, &Booked::task);
  CARMA_CHECK(booked != node.booked.end(), "a task without a booking is released");
  for (const Part& part : booked->parts) node.left[part.pool] += part.units;
  node.gpus_booked -= booked->gpus;
  node.booked.erase(booked);
}

NodeCounts::Node NodeCounts::At(const Node& node, base::Time at) {
  Node later{.all = node.all, .left = node.left, .gpus = node.gpus};
  for (const Booked& each : node.booked) {
    if (each.ends > at) continue;
    for (const Part& part : each.parts) later.left[part.pool] += part.units;
  }
  return later;
}

std::optional<base::Time> NodeCounts::FitsFrom(std::uint32_t index, const CountAsked& asked,
                                               base::Time now) const {
  const Node& node = nodes_[index];
  if (Fits(node, asked)) return now;
  std::vector<base::Time> ends;
  for (const Booked& each : node.booked) ends.push_back(std::max(each.ends, now));
  std::ranges::sort(ends);
  for (const base::Time each : ends) {
    if (Fits(At(node, each), asked)) return each;
  }
  return std::nullopt;
}

bool NodeCounts::FitsBeside(std::uint32_t index, const CountAsked& asked, base::Time at,
                            const CountAsked& other) const {
  if (!Fits(nodes_[index], other)) return false;
  Node later = At(nodes_[index], at);
  for (const Part& part : PartsFor(nodes_[index], other)) later.left[part.pool] -= part.units;
  return Fits(later, asked);
}

}  // namespace carma::sim
