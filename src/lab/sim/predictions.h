// What the simulated daemons know of a task when it is submitted, and learn when it ends. Private
// to sim.
#pragma once

#include <optional>
#include <vector>

#include "core/scheduler/events.h"
#include "core/values/profile.h"
#include "core/values/promise.h"
#include "lab/sim/appraisals.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/simulate.h"

namespace carma::sim {

// All servers share what is known. Random errors are drawn for each task, so that an answer does
// not depend on when it is asked for.
class Predictions {
 public:
  // The options and the layout must outlive it.
  Predictions(const RunOptions& options, const Layout& layout);

  // The task's memory; empty: no estimate.
  std::optional<core::Estimate> EstimateOf(const Job& job);
  core::Profile ProfileOf(const Job& job);
  // Estimate and profile as the event for the core of the task's server.
  core::EstimateReady AnswerFor(const Job& job);
  // An attempt has left its GPUs.
  void Learn(const Job& job, const core::TaskRecord& record, base::Time now);
  // RunResult::taught.
  std::vector<task::Observation> Taught() const;

 private:
  // The estimate before the error model changes it.
  std::optional<core::Estimate> Unchanged(const Job& job);

  const RunOptions& options_;
  const Layout& layout_;
  std::optional<Appraisals> appraisals_;  // with a method
};

}  // namespace carma::sim
