#include "gpu/sanity.h"

#include <fmt/format.h>

#include "gpu/counters.h"

namespace carma::gpu {
namespace {

// Tolerance for rounding: total is rounded down, used and reserved are rounded up.
constexpr std::int64_t kRoundingMib = 3;

bool Within(const std::optional<double>& value, double high) {
  return !value || (*value >= 0 && *value <= high);  // NaN fails both
}

std::string MemoryObjection(const Reading& reading) {
  if (reading.total_mib <= 0) return "the driver reports a GPU without memory";
  if (reading.reserved_mib < 0 || reading.used_mib < 0)
    return "the driver reports a negative amount of memory";
  if (reading.reserved_mib > reading.total_mib + kRoundingMib ||
      reading.used_mib > reading.total_mib - reading.reserved_mib + kRoundingMib) {
    return "more memory in use than the GPU has";
  }
  for (const ProcessUse& use : reading.processes) {
    if (use.used_mib.value_or(0) > reading.total_mib)
      return fmt::format("pid {} uses more memory than the GPU has", use.pid);
  }
  return "";
}

}  // namespace

std::string Sanity::Objection(const Reading& reading) {
  if (std::string memory = MemoryObjection(reading); !memory.empty()) return memory;
  for (const Counter& counter : Counters()) {
    const double high = counter.unit == CounterUnit::kFraction ? 1 : kMaxBytesPerSecond;
    if (!Within(reading.*counter.value, high)) return fmt::format("{} is impossible", counter.name);
  }
  for (const Gauge& gauge : Gauges()) {
    if (!Within(reading.*gauge.value, gauge.high))
      return fmt::format("{} is impossible", gauge.name);
  }
  if (reading.energy_j) {
    const double before_j = last_energy_j_;
    last_energy_j_ = *reading.energy_j;
    if (*reading.energy_j < before_j) return "the energy counter decreased";
  }
  const bool stuck = reading.sm_active && *reading.sm_active < kStuckSmActive &&
                     reading.utilization && *reading.utilization >= kFullUtilization;
  if (!stuck) {
    stuck_since_.reset();
    return "";
  }
  if (!stuck_since_) stuck_since_ = reading.taken;
  if (reading.taken - *stuck_since_ < kStuckSpan) return "";
  return "SM activity is stuck at zero while kernels run continuously";
}

ReadResult<Unit> Sanity::Check(const std::string& uuid, const Reading& reading) {
  std::string objection = Objection(reading);
  if (objection.empty()) return Unit{};
  return FailRead(ErrorCode::kCorrupt, std::move(objection), uuid);
}

}  // namespace carma::gpu
