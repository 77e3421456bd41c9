// Finds the servers that are able to run a task at all, for the cluster's queue. Private to sim.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lab/sim/alike.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/predictions.h"
#include "lab/sim/server.h"

namespace carma::sim {

class Candidates {
 public:
  // All arguments must outlive this object.
  Candidates(const RunOptions& options, const Layout& layout, const Servers& servers,
             Predictions& predictions);

  // The group that this task belongs to. Tasks of a group are interchangeable for placement.
  std::shared_ptr<Alike> AlikeOf(const Job& job);
  // Whether the server, when empty, could take a task like this one.
  bool CouldTake(Alike& alike, std::uint32_t server) const;
  bool AnyCould(Alike& alike, std::optional<std::uint32_t> except = {}) const;
  // Returns as many free servers (`is_free`) of one kind as the task needs, or an empty list if
  // there are too few.
  using IsFree = std::function<bool(std::uint32_t)>;
  std::vector<std::uint32_t> WholeServersFor(const Job& job, const IsFree& is_free) const;

 private:
  const RunOptions& options_;
  const Layout& layout_;
  const Servers& servers_;
  Predictions& predictions_;
  std::map<AlikeKey, std::shared_ptr<Alike>> alikes_;
};

}  // namespace carma::sim
