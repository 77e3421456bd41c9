// The memory and activity of the simulated cluster's GPUs. A SimGpu is what the policy sees as a
// GPU: a card, or a MIG instance of a card. A SimDevice is the card that draws power.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"
#include "lab/sim/models.h"

namespace carma::sim {

// A task's share of one GPU, from its first allocation to its end.
struct Occupant {
  std::uint32_t job = 0;   // the task's number within its run
  std::uint32_t part = 0;  // which of the task's GPUs this is
  std::int64_t mib = 0;
  double base_speed = 1;  // the task's speed on this GPU without neighbours
  Load load;
};

// A simulated GPU: its memory, its residents, and its recent activity, which the monitor averages.
class SimGpu {
 public:
  SimGpu(std::int64_t usable_mib, base::Time from);

  std::int64_t usable_mib() const { return usable_mib_; }
  std::int64_t used_mib() const { return used_mib_; }
  double sm_active() const { return steps_.back().sm_active; }
  const std::vector<Occupant>& occupants() const { return occupants_; }  // in order of arrival

  // The caller must call SetActivity each time the occupants change.
  void Add(const Occupant& occupant);
  void Remove(std::uint32_t job);
  void Resize(std::uint32_t job, std::int64_t mib);

  // Sets the activity from `now` on. Calls must be in chronological order. Activity older than
  // `keep` may be dropped.
  void SetActivity(base::Time now, double sm_active, base::Duration keep);
  // Exact mean of the activity over [from, to]; the activity at `to` if from == to.
  double MeanActivity(base::Time from, base::Time to) const;
  // changes() counts the calls to SetActivity. changed() is the time of the last call, or the start
  // of the run if there has been none.
  std::uint64_t changes() const { return changes_; }
  base::Time changed() const { return steps_.back().at; }

 private:
  struct Step {  // from `at` until the next step
    base::Time at{};
    double sm_active = 0;
    double integral_ms = 0;  // integral of the activity up to `at`
  };
  const Step& StepAt(base::Time at) const;
  double IntegralAt(base::Time at) const;

  std::int64_t usable_mib_ = 0;
  std::int64_t used_mib_ = 0;
  std::vector<Occupant> occupants_;
  std::deque<Step> steps_;  // ascending, never empty
  std::uint64_t changes_ = 0;
};

// A card that integrates its memory usage, activity and power over the run. The integrals are exact
// because these values are constant between changes.
class SimDevice {
 public:
  SimDevice(const PowerModel& power, base::Time from);

  // Sets the card's memory usage and activity from `now` on.
  void Set(base::Time now, std::int64_t used_mib, double sm_active);
  // Extends the integrals to `now`.
  void Advance(base::Time now);

  std::int64_t used_mib() const { return used_mib_; }
  double sm_active() const { return sm_active_; }
  double power_w() const { return power_w_; }
  double energy_j() const { return energy_j_; }
  double sm_s() const { return sm_s_; }
  double mib_s() const { return mib_s_; }

 private:
  PowerModel model_;
  base::Time since_{};
  std::int64_t used_mib_ = 0;
  double sm_active_ = 0;
  double power_w_ = 0;
  double energy_j_ = 0;
  double sm_s_ = 0;
  double mib_s_ = 0;
};

}  // namespace carma::sim
