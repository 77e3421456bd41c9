#include "lab/sim/sim_gpu.h"

#include <algorithm>

#include "base/result.h"

namespace carma::sim {
namespace {

auto FindJob(std::vector<Occupant>& occupants, std::uint32_t job) {
  const auto at = std::ranges::find(occupants, job, &Occupant::job);
  CARMA_CHECK(at != occupants.end(), "a task leaves a GPU that it is not on");
  return at;
}

double Ms(base::Duration span) {
  return static_cast<double>(span.count());
}

}  // namespace

SimGpu::SimGpu(std::int64_t usable_mib, base::Time from) : usable_mib_(usable_mib) {
  steps_.push_back({.at = from});
}

void SimGpu::Add(const Occupant& occupant) {
  occupants_.push_back(occupant);
  used_mib_ += occupant.mib;
}

void SimGpu::Remove(std::uint32_t job) {
  const auto at = FindJob(occupants_, job);
  used_mib_ -= at->mib;
  occupants_.erase(at);
}

void SimGpu::Resize(std::uint32_t job, std::int64_t mib) {
  const auto at = FindJob(occupants_, job);
  used_mib_ += mib - at->mib;
  at->mib = mib;
}

void SimGpu::SetActivity(base::Time now, double sm_active, base::Duration keep) {
  ++changes_;
  const double integral_ms = IntegralAt(now);
  if (steps_.back().at == now) {
    steps_.back().sm_active = sm_active;
  } else {
    steps_.push_back({.at = now, .sm_active = sm_active, .integral_ms = integral_ms});
  }
  while (steps_.size() > 1 && steps_[1].at <= now - keep) steps_.pop_front();
}

const SimGpu::Step& SimGpu::StepAt(base::Time at) const {
  if (steps_.back().at <= at) return steps_.back();  // most queries are about the current time
  const auto after = std::ranges::upper_bound(steps_, at, {}, &Step::at);
  return after == steps_.begin() ? steps_.front() : *(after - 1);
}

double SimGpu::IntegralAt(base::Time at) const {
  const Step& step = StepAt(at);
  return step.integral_ms + step.sm_active * Ms(at - step.at);
}

double SimGpu::MeanActivity(base::Time from, base::Time to) const {
  if (from >= to) return StepAt(to).sm_active;
  // If the activity did not change, subtracting two long integrals would only add a rounding error.
  const Step& first = StepAt(from);
  if (&first == &StepAt(to)) return first.sm_active;
  return std::clamp((IntegralAt(to) - IntegralAt(from)) / Ms(to - from), 0.0, 1.0);
}

SimDevice::SimDevice(const PowerModel& power, base::Time from)
    : model_(power), since_(from), power_w_(PowerW(power, 0)) {}

void SimDevice::Advance(base::Time now) {
  if (now <= since_) return;
  const double span_s = base::Seconds(now - since_);
  energy_j_ += power_w_ * span_s;
  sm_s_ += sm_active_ * span_s;
  mib_s_ += static_cast<double>(used_mib_) * span_s;
  since_ = now;
}

void SimDevice::Set(base::Time now, std::int64_t used_mib, double sm_active) {
  Advance(now);
  used_mib_ = used_mib;
  if (sm_active == sm_active_) return;
  sm_active_ = sm_active;
  power_w_ = PowerW(model_, sm_active);
}

}  // namespace carma::sim
