// Chooses servers by asking them: each server reports whether its guards and mapper would start the
// task now, and how well the task would fit. A server with a waiting task does not accept another
// one, so a placed task starts immediately unless something unforeseen happens. Private to sim.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "core/policy/policy.h"
#include "lab/sim/candidates.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/lines_above.h"
#include "lab/sim/server.h"
#include "lab/sim/simulate.h"
#include "lab/sim/slurm.h"

namespace carma::sim {

class AskedPlacing {
 public:
  // All arguments must outlive this object; the servers must exist already.
  AskedPlacing(const RunOptions& options, const Layout& layout, const Servers& servers,
               const LinesAbove& lines, const Jobs& jobs, const Candidates& candidates);

  // Call this when this server's answers may have changed.
  void Changed(std::uint32_t server) { touched_.push_back(server); }
  // Places tasks until no server would start another. Call it only if no reports are due.
  void Place(base::Time now, const PlaceTask& place);
  // Call this after servers have been assigned to the task.
  void Placed(const Job& job);
  // Deadline for the servers' next report of samples. Their decisions are known immediately,
  // without a report.
  base::Time ReportsBy() const { return reported_ + options_.above.report_every; }
  void Reported(base::Time now) { reported_ = now; }

 private:
  struct Seen {  // a server's GPUs as last seen
    std::vector<core::GpuView> views;
    std::uint64_t told = 0;  // Server::told at that time
  };

  std::vector<std::uint32_t> NodesFor(const Job& job, base::Time now);
  const std::optional<double>& AnswerOf(Alike& alike, std::uint32_t server, base::Time now);
  std::optional<double> Ask(Alike& alike, std::uint32_t server, base::Time now);
  bool IsFreeOfAll(std::uint32_t server) const;
  bool IsKeptFrom(const Job& job, std::uint32_t server) const;
  void KeepServers(std::span<const LinesAbove::Waiting> looked_at, base::Time now);

  const RunOptions& options_;
  const Layout& layout_;
  const Servers& servers_;
  const LinesAbove& lines_;
  const Jobs& jobs_;
  const Candidates& candidates_;
  std::unique_ptr<core::Mapper> mapper_;  // its score ranks the answers
  std::vector<Seen> seen_;                // one per server
  base::Time reported_{};
  // Servers whose answers may have changed, oldest change first. A new epoch means that all
  // answers may have changed.
  std::vector<std::uint32_t> touched_;
  std::uint64_t epoch_ = 1;
  // The task for which servers are kept free, because other tasks have been starting ahead of it
  // for too long.
  std::optional<std::uint64_t> kept_for_;
  std::vector<std::uint32_t> kept_;
};

}  // namespace carma::sim
