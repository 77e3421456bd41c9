// Runs the plan on this machine's GPUs: starts the members of each run below keepers, reads the
// GPUs meanwhile, and tells what each run came to.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/settings.h"
#include "gpu/probe.h"
#include "lab/verbs/profile/keeper.h"
#include "lab/verbs/profile/plan.h"
#include "lab/verbs/profile/results.h"
#include "lab/verbs/profile/workloads.h"

namespace carma::cli {

// Where one run happens: a whole GPU, or the instances of one type that a GPU is divided into.
struct Lane {
  std::string gpu_type;
  std::string board;                 // UUID of the whole GPU; lanes of one take turns
  std::vector<std::size_t> devices;  // of the driver's list
  std::vector<std::string> uuids;    // of these
  bool mig = false;
};
// chosen: numbers of the list; empty: all that could be described. Errors: kNotFound: no such GPU,
// or one in trouble.
base::Result<std::vector<Lane>> LanesOf(std::span<const gpu::DeviceInfo> devices,
                                        std::span<const std::size_t> chosen);
// Each type once, with the most instances that a lane of it has.
std::vector<ProfiledType> TypesOf(std::span<const Lane> lanes);

// What one look at a GPU showed.
struct ProfileSample {
  double at_s = 0;
  std::optional<double> sm_active;    // mean since the sample before
  std::optional<double> utilization;  // coarse
  std::int64_t used_mib = 0;
  std::optional<double> energy_j;
};
// When a GPU became active for the rest of the run, as closely as the samples tell: what it did in
// the first active span, over its usual activity, is how long it was active there. By the coarse
// utilisation where nobody counts SM activity. Empty: nobody told either, or it never was active.
// Times of samples rise; the first one only says where the second one's span begins.
std::optional<double> ActiveFrom(std::span<const ProfileSample> samples);
// The same of the moment after which it was active no more; the last sample should be of later.
std::optional<double> ActiveUntil(std::span<const ProfileSample> samples);
// Mean SM activity from then to the end; what was before and after counts as its.
// Empty: not told.
std::optional<double> MeanSmActive(std::span<const ProfileSample> samples, double from_s,
                                   double to_s);

class Measurement {
 public:
  struct Options {
    config::Settings settings;
    std::vector<ProfiledWorkload> workloads;
    std::string outputs;  // folder of the programs' output
    bool beside_others = false;
    // How a number of s of real time passes on the GPUs' clock (simulated servers: faster).
    double time_scale = 1;
    const std::atomic<bool>* interrupted = nullptr;
  };
  struct Listener {
    // A run has ended. Errors end the measurement.
    std::function<base::Result<base::Unit>(MeasuredRun)> take;
    // Why a run cannot be tried, which is then told as failed; empty: it can.
    std::function<std::string(const PlannedRun&)> refuse;
    // What is going on, again and again.
    std::function<void(const std::vector<std::string>& under_way)> show;
  };

  Measurement(Options options, gpu::Probe& probe, std::vector<Lane> lanes);
  ~Measurement();

  // Blocks until all runs have ended, several at once where there are several lanes of a type. A
  // run in which a member fails beside others is told as failed. Errors: kConflict: a GPU is used
  // by somebody else, or it was interrupted; kInvalid: a workload fails alone; those of the driver.
  // Nothing of what it started is left then either.
  base::Result<base::Unit> Run(std::deque<PlannedRun> plan, const Listener& listener);
  // What a workload's calibration writes on the first lane. Errors: as Run().
  base::Result<std::string> Calibrate(const ProfiledWorkload& workload);

 private:
  class ActiveRun;
  class Place;

  base::Result<base::Unit> StartWhatCan(std::deque<PlannedRun>& plan, const Listener& listener);
  base::Result<base::Unit> StartOn(Place& place, std::deque<PlannedRun>& plan,
                                   const Listener& listener);
  bool MayStart(const Place& place, const PlannedRun& run) const;
  std::set<std::string> StillAlone(const std::string& gpu_type,
                                   const std::deque<PlannedRun>& plan) const;
  base::Result<base::Unit> TakeNews(const Listener& listener);
  base::Result<base::Unit> ReadGpus();
  void Wait();
  bool Interrupted() const;

  Options options_;
  gpu::Probe& probe_;
  std::vector<std::unique_ptr<Place>> places_;
  std::int64_t next_look_ns_ = 0;
};

}  // namespace carma::cli
