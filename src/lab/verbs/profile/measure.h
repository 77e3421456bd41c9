// Executes the planned runs on this machine's GPUs: starts the members of each run under keepers,
// samples the GPUs, and reports each result.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "gpu/probe.h"
#include "lab/verbs/profile/plan.h"
#include "lab/verbs/profile/results.h"
#include "lab/verbs/profile/workloads.h"

namespace carma::cli {

struct MeasureOptions {
  config::Settings settings;
  std::vector<ProfiledWorkload> workloads;
  std::string outputs;  // folder for the programs' output
  bool beside_others = false;
  // Speed of the GPUs' clock relative to real time; above 1 on accelerated simulated servers.
  double time_scale = 1;
  const std::atomic<bool>* interrupted = nullptr;
};
struct MeasureListener {
  // Called when a run has ended. An error stops the measurement.
  std::function<Result<Unit>(MeasuredRun)> take;
  // Returns why a run cannot be tried, or an empty string. A refused run is reported as failed.
  std::function<std::string(const PlannedRun&)> refuse;
  // Called repeatedly with the runs that are under way.
  std::function<void(const std::vector<std::string>& under_way)> show;
};

// Blocks until all runs have ended. Runs on different GPUs may overlap. A run is reported as failed
// if it runs out of memory or if a workload fails while running alongside others. If a workload
// fails alone for another reason, its remaining runs are skipped, and kConflict is returned at the
// end. With `beside_others`, a run that runs out of memory is not reported and gives kConflict. No
// process is left running, even after an error. Returns kConflict at once if a GPU is in use or the
// measurement was interrupted, or a driver error.
Result<Unit> MeasureRuns(const MeasureOptions& options, gpu::Probe& probe,
                         std::span<const Lane> lanes, std::deque<PlannedRun> plan,
                         const MeasureListener& listener);
// Runs a workload's calibration on the lane and returns its output, or an error as MeasureRuns()
// does.
Result<std::string> RunCalibration(MeasureOptions options, gpu::Probe& probe, const Lane& lane,
                                   const ProfiledWorkload& workload);

}  // namespace carma::cli
