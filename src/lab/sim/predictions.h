// The simulated daemons' predictions for a task at its submission, and the observations from its
// end. Private to sim.
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

// All servers share their knowledge. Random errors are drawn per task, so that an answer does not
// depend on the time of the request.
class Predictions {
 public:
  // The options and the layout must outlive this object.
  Predictions(const RunOptions& options, const Layout& layout);

  // The estimate of the task's memory; empty if there is none.
  std::optional<core::Estimate> EstimateOf(const Job& job);
  core::Profile ProfileOf(const Job& job);
  // The event with estimate and profile for the core of the task's server.
  core::EstimateReady AnswerFor(const Job& job);
  // Learns from an attempt that has left its GPUs.
  void Learn(const Job& job, const core::TaskRecord& record, base::Time now);
  // All observations so far, for RunResult::taught.
  std::vector<task::Observation> Taught() const;

 private:
  // The estimate before the error model changes it.
  std::optional<core::Estimate> Unchanged(const Job& job);

  const RunOptions& options_;
  const Layout& layout_;
  std::optional<Appraisals> appraisals_;  // empty unless the options name a method
};

}  // namespace carma::sim
