#include "core/values/throughput.h"

#include <algorithm>

namespace carma::core {
namespace {

bool OfSeveralUsers(std::span<const Neighbour> tasks, const Neighbour* newcomer) {
  if (tasks.empty()) return false;
  const std::uint32_t user = newcomer == nullptr ? tasks.front().load.user : newcomer->load.user;
  return std::ranges::any_of(tasks, [user](const auto& each) { return each.load.user != user; });
}

// The speeds of all tasks under MPS. The newcomer comes last.
std::vector<double> SpeedsOfUsers(std::span<const Neighbour> tasks, const Neighbour* newcomer) {
  std::vector<Load> loads;
  for (const Neighbour& each : tasks) loads.push_back(each.load);
  if (newcomer != nullptr) loads.push_back(newcomer->load);
  std::vector<double> speeds(loads.size());
  Speeds({}, SharingMethod::kMps, loads, speeds);
  return speeds;
}

ThroughputEstimate OfUsers(std::span<const Neighbour> residents, const Neighbour* newcomer) {
  const std::vector<double> speeds = SpeedsOfUsers(residents, newcomer);
  ThroughputEstimate outlook;
  const auto add = [&](const Neighbour& each, double speed) {
    const double takes = each.cramped / speed;
    outlook.delivered += each.load.sm_active * speed;
    outlook.slowest = std::max(outlook.slowest, takes);
    outlook.doubt = std::max(outlook.doubt, each.doubt);
    return takes;
  };
  std::vector<double> takes;
  for (std::size_t i = 0; i < residents.size(); ++i) takes.push_back(add(residents[i], speeds[i]));
  if (newcomer != nullptr) outlook.newcomer = add(*newcomer, speeds.back());
  const auto bears = [&](const Neighbour& each, double time) {
    return 1 + (time - 1) * outlook.doubt <= each.max_slowdown;
  };
  for (std::size_t i = 0; i < residents.size(); ++i)
    outlook.bearable &= bears(residents[i], takes[i]);
  if (newcomer != nullptr) outlook.bearable &= bears(*newcomer, outlook.newcomer);
  return outlook;
}

}  // namespace

double SaturationOf(const Interference& model, SharingMethod sharing) {
  return sharing == SharingMethod::kMps ? model.mps_saturation : kStreamsSaturation;
}

void SlowdownsOf(std::span<const Neighbour> tasks, double saturation,
                 std::vector<double>& slowdowns) {
  double pressure = 0;
  for (const Neighbour& each : tasks) pressure += each.load.pressure;
  slowdowns.clear();
  double delivered = 0;
  for (const Neighbour& each : tasks) {
    slowdowns.push_back(1 + each.load.sensitivity * (pressure - each.load.pressure));
    delivered += each.load.sm_active / slowdowns.back();
  }
  const double held_back = std::max(1.0, delivered / saturation);
  for (std::size_t i = 0; i < tasks.size(); ++i) slowdowns[i] *= held_back * tasks[i].cramped;
  if (saturation == kStreamsSaturation || !OfSeveralUsers(tasks, nullptr)) return;
  const std::vector<double> speeds = SpeedsOfUsers(tasks, nullptr);
  for (std::size_t i = 0; i < tasks.size(); ++i) slowdowns[i] = tasks[i].cramped / speeds[i];
}

ThroughputEstimate ThroughputOf(std::span<const Neighbour> residents, const Neighbour* newcomer,
                                double saturation) {
  if (saturation != kStreamsSaturation && OfSeveralUsers(residents, newcomer))
    return OfUsers(residents, newcomer);
  double pressure = newcomer == nullptr ? 0 : newcomer->load.pressure;
  for (const Neighbour& each : residents) pressure += each.load.pressure;
  const auto slowdown = [pressure](const Neighbour& each) {
    return 1 + each.load.sensitivity * (pressure - each.load.pressure);
  };
  ThroughputEstimate outlook;
  for (const Neighbour& each : residents) outlook.delivered += each.load.sm_active / slowdown(each);
  if (newcomer != nullptr) outlook.delivered += newcomer->load.sm_active / slowdown(*newcomer);
  const double held_back = std::max(1.0, outlook.delivered / saturation);
  outlook.delivered = std::min(outlook.delivered, saturation);
  for (const Neighbour& each : residents) outlook.doubt = std::max(outlook.doubt, each.doubt);
  if (newcomer != nullptr) outlook.doubt = std::max(outlook.doubt, newcomer->doubt);
  const auto look_at = [&](const Neighbour& each) {
    const double takes = slowdown(each) * held_back * each.cramped;
    outlook.slowest = std::max(outlook.slowest, takes);
    outlook.bearable &= 1 + (takes - 1) * outlook.doubt <= each.max_slowdown;
    return takes;
  };
  for (const Neighbour& each : residents) look_at(each);
  if (newcomer != nullptr) outlook.newcomer = look_at(*newcomer);
  return outlook;
}

}  // namespace carma::core
