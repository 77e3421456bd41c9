// The simulated daemons' predictions for a task at submission, and the observations made when it
// ends. Private to sim.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/scheduler/events.h"
#include "core/values/ids.h"
#include "core/values/profile.h"
#include "core/values/promise.h"
#include "estimate/appraiser.h"
#include "estimate/history.h"
#include "estimate/lesson.h"
#include "lab/sim/jobs.h"
#include "lab/sim/layout.h"
#include "lab/sim/simulate.h"
#include "lab/trace/workloads.h"
#include "task/describe/spec.h"

namespace carma::sim {

// Uses carmad's own estimators, which learn from finished attempts (estimate/appraiser.h,
// estimate/lesson.h). Tasks with the same user and workload count as runs of the same program; user
// 0 means unknown. All servers share what they have learned. Random errors are drawn per task, so
// an estimate does not depend on when it is requested.
class Predictions {
 public:
  // The options and the layout must outlive this object.
  Predictions(const RunOptions& options, const Layout& layout);

  // Returns the event that delivers the task's estimate and profile to the server's core.
  core::EstimateReady AnswerFor(const Job& job);
  // Learns from an attempt that has left its GPUs.
  void Learn(const Job& job, const core::TaskRecord& record, base::Time now);
  // All observations so far, for RunResult::taught.
  std::vector<task::Observation> Taught() const { return history_->All(); }

 private:
  struct Known {
    task::TaskSpec spec;
    const estimate::Summary* summary = nullptr;
    estimate::Appraisal appraisal;
    std::uint64_t asked_after = 0;  // number of lessons at the last request
    bool asked = false;
    bool stale = true;  // lessons from the workload's own tasks have arrived since that request
  };
  Known& Find(const trace::Workload& workload, std::uint32_t uid);
  // Returns the current estimate and profile for this user's tasks of the workload. appraiser_ must
  // be set.
  const estimate::Appraisal& Appraised(const trace::Workload& workload, std::uint32_t uid);
  // The task's memory estimate; empty if there is none.
  std::optional<core::Estimate> EstimateOf(const Job& job);
  core::Profile ProfileOf(const Job& job);
  // The estimate before random errors are applied.
  std::optional<core::Estimate> Unchanged(const Job& job);

  const RunOptions& options_;
  const Layout& layout_;
  const estimate::Summary no_summary_;
  std::shared_ptr<estimate::History> history_ = std::make_shared<estimate::History>();
  std::optional<estimate::Appraiser> appraiser_;  // empty unless the options name a method
  // Keyed by user and workload; never iterated over.
  std::map<std::pair<std::uint32_t, const trace::Workload*>, Known> known_;
  std::uint64_t lessons_ = 0;
};

}  // namespace carma::sim
