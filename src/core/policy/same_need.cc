#include "core/policy/same_need.h"

#include <cstdint>
#include <functional>

namespace carma::core {
namespace {

bool MayHaveTheSame(const Need& a, const Need& b) {
  if (a.choice == b.choice) return true;
  return a.choice && b.choice && *a.choice == *b.choice;
}

}  // namespace

bool AskTheSame(const Need& a, const Need& b) {
  return a.memory_mib == b.memory_mib && a.others_mib == b.others_mib &&
         a.retry_free_mib == b.retry_free_mib && a.idle_gpu == b.idle_gpu &&
         a.exclusive == b.exclusive && a.gpus == b.gpus && a.sm_share == b.sm_share &&
         a.host == b.host && a.load == b.load && a.alone == b.alone &&
         a.activity_known == b.activity_known && a.uses_cpus == b.uses_cpus && a.uid == b.uid &&
         a.runs_at_most == b.runs_at_most && a.own_reservations == b.own_reservations &&
         a.linked == b.linked && a.takes_turns == b.takes_turns && MayHaveTheSame(a, b);
}

std::size_t HashOf(const Need& need) {
  std::size_t hash = std::hash<std::int64_t>()(need.memory_mib.value_or(-1));
  const auto mix = [&hash](std::size_t value) {
    hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  };
  mix(std::hash<std::int64_t>()(need.retry_free_mib));
  mix(static_cast<std::size_t>(need.gpus));
  mix(std::hash<double>()(need.load.load.sm_active));
  mix(std::hash<double>()(need.load.load.sensitivity));
  mix(std::hash<double>()(need.load.load.pressure));
  mix(need.load.load.user);
  mix(need.uid);
  mix(static_cast<std::size_t>(need.host.cpus));
  mix(std::hash<std::int64_t>()(need.host.memory_mib));
  mix(std::hash<std::int64_t>()(need.alone.value_or(Duration{0}).count()));
  return hash;
}

}  // namespace carma::core
