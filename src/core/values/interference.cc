#include "core/values/interference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

namespace carma::core {
namespace {

// Less than 1, because without MPS the kernels of several processes take turns, and each switch
// takes some time.
constexpr double kMaxStreamsActivity = 0.99;

// Limits the GPU's total throughput to `most`.
void HoldDelivery(std::span<const Load> loads, double most, std::span<double> speeds) {
  double delivered = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) delivered += loads[i].sm_active * speeds[i];
  if (delivered <= most) return;
  for (double& speed : speeds) speed *= most / delivered;
}

void MpsSpeeds(const Interference& model, std::span<const Load> loads, std::span<double> speeds) {
  double pressure = 0;
  double wanted = 0;
  for (const Load& load : loads) {
    pressure += load.pressure;
    wanted += load.sm_active;
  }
  for (std::size_t i = 0; i < loads.size(); ++i)
    speeds[i] = 1.0 / (1.0 + loads[i].sensitivity * (pressure - loads[i].pressure));
  const double excess = std::max(0.0, wanted - model.mps_saturation);
  HoldDelivery(loads, model.mps_saturation / (1.0 + model.mps_oversubscription * excess), speeds);
}

// The formula was fitted to GPUs with several tasks. For a single task, its own activity is exact.
double JointActivity(const Interference& model, std::span<const Load> loads) {
  if (loads.size() == 1) return loads.front().sm_active;
  double quiet = 1.0;
  for (const Load& load : loads) quiet *= 1.0 - load.sm_active;
  return 1.0 - std::pow(quiet, model.smact_exponent);
}

void SpeedsOfUsers(const Interference& model, std::span<const Load> loads,
                   std::span<double> speeds) {
  struct User {
    std::vector<std::size_t> tasks;
    double busy = 0;  // share of time for which the user alone would keep the GPU busy
  };
  std::map<std::uint32_t, User> users;
  for (std::size_t i = 0; i < loads.size(); ++i) users[loads[i].user].tasks.push_back(i);
  double total = 0;
  std::vector<Load> own;
  std::vector<double> own_speeds;
  for (auto& [uid, user] : users) {
    own.clear();
    for (const std::size_t i : user.tasks) own.push_back(loads[i]);
    own_speeds.resize(own.size());
    MpsSpeeds(model, own, own_speeds);
    for (std::size_t i = 0; i < own.size(); ++i) speeds[user.tasks[i]] = own_speeds[i];
    user.busy = AsTurns(model, {.sm_active = JointActivity(model, own)}).pressure;
    total += user.busy;
  }
  for (const auto& [uid, user] : users) {
    for (const std::size_t i : user.tasks)
      speeds[i] /= 1.0 + model.streams_a * user.busy * (total - user.busy);
  }
  HoldDelivery(loads, kStreamsSaturation, speeds);
}

void StreamsSpeeds(const Interference& model, std::span<const Load> loads,
                   std::span<double> speeds) {
  double total = 0;
  for (const Load& load : loads) total += AsTurns(model, load).pressure;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const Load turns = AsTurns(model, loads[i]);
    speeds[i] = 1.0 / (1.0 + turns.sensitivity * (total - turns.pressure));
  }
  HoldDelivery(loads, kStreamsSaturation, speeds);
}

}  // namespace

Load LoadOf(const Profile& profile) {
  const double sm_active = profile.sm_active.value_or(kUsualActivity);
  MpsParameters mps{.sensitivity = kUsualSensitivity, .pressure = sm_active};
  if (profile.mps) {
    mps = *profile.mps;
  } else if (profile.sm_active && profile.grain) {
    mps = GuessByGrain(*profile.sm_active, *profile.grain);
  }
  return {.sm_active = sm_active, .sensitivity = mps.sensitivity, .pressure = mps.pressure};
}

Load AsTurns(const Interference& model, Load load) {
  // Share of the time in which the task keeps the GPU busy; higher than its SM activity.
  load.pressure = 1.0 - std::pow(1.0 - load.sm_active, model.streams_q);
  load.sensitivity = model.streams_a * load.pressure;
  return load;
}

bool OfSeveralUsers(std::span<const Load> loads) {
  return std::ranges::any_of(loads,
                             [&](const Load& each) { return each.user != loads.front().user; });
}

void Speeds(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
            std::span<double> speeds) {
  if (sharing == SharingMethod::kMps && OfSeveralUsers(loads)) {
    SpeedsOfUsers(model, loads, speeds);
  } else if (sharing == SharingMethod::kMps) {
    MpsSpeeds(model, loads, speeds);
  } else {
    StreamsSpeeds(model, loads, speeds);
  }
}

double SmActivity(const Interference& model, SharingMethod sharing, std::span<const Load> loads,
                  std::span<const double> speeds) {
  if (sharing == SharingMethod::kMps && !OfSeveralUsers(loads)) return JointActivity(model, loads);
  double sum = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) sum += loads[i].sm_active * speeds[i];
  return std::min(kMaxStreamsActivity, sum);
}

}  // namespace carma::core
