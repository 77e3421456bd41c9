#include "daemon/gpus/usage_meter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace carma::daemon {
namespace {

constexpr double kUnknown = store::GpuUsage::kUnknown;

}  // namespace

void UsageMeter::Begin(const gpu::Reading& reading, int tasks) {
  Span& span = span_.emplace(Span{});
  span.from = span.last = reading.taken;
  span.last_energy_j = reading.energy_j;
  if (reading.energy_j) span.energy_j = 0;
  span.used_peak_mib = reading.used_mib;
  span.tasks = tasks;
}

void UsageMeter::Add(const gpu::Reading& reading, int tasks) {
  if (!span_) return Begin(reading, tasks);
  Span& span = *span_;
  if (reading.taken - span.last > longest_) {
    // The usage is unknown while there are no readings, so the row ends here. A single reading
    // produces no row, because it covers no time.
    if (span.last > span.from) closed_.push_back(RowOf(span));
    return Begin(reading, tasks);
  }
  const auto span_ms = static_cast<double>((reading.taken - span.last).count());
  if (span_ms <= 0) return;
  if (reading.sm_active) {
    span.sm_ms += *reading.sm_active * span_ms;
    span.sm_peak = std::max(span.sm_peak, *reading.sm_active);
  } else {
    span.sm_known = false;
  }
  if (reading.dram_active) {
    span.dram_ms += *reading.dram_active * span_ms;
  } else {
    span.dram_known = false;
  }
  span.used_peak_mib = std::max(span.used_peak_mib, reading.used_mib);
  span.mib_ms += static_cast<double>(reading.used_mib) * span_ms;
  span.last = reading.taken;
  span.tasks = tasks;
  if (!reading.energy_j) return;
  // The counter restarts from zero when the driver is loaded or the GPU is reset.
  const double before_j = span.last_energy_j.value_or(*reading.energy_j);
  span.energy_j = span.energy_j.value_or(0) + std::max(0.0, *reading.energy_j - before_j);
  span.last_energy_j = reading.energy_j;
}

store::GpuUsage UsageMeter::RowOf(const Span& span) const {
  const auto span_ms = static_cast<double>((span.last - span.from).count());
  store::GpuUsage row;
  row.from = span.from;
  row.to = span.last;
  row.gpu_uuid = gpu_uuid_;
  row.sm_active = span.sm_known ? span.sm_ms / span_ms : kUnknown;
  row.used_mib = span.mib_ms / span_ms;
  row.energy_j = span.energy_j.value_or(kUnknown);
  row.tasks = span.tasks;
  row.sm_peak = span.sm_known ? span.sm_peak : kUnknown;
  row.used_peak_mib = static_cast<double>(span.used_peak_mib);
  row.dram_active = span.dram_known ? span.dram_ms / span_ms : kUnknown;
  return row;
}

void UsageMeter::Close(base::Time now, bool energy_shown_by_another,
                       std::vector<store::GpuUsage>& rows) {
  std::vector<store::GpuUsage> closed = std::exchange(closed_, {});
  if (span_ && span_->last > span_->from && span_->last <= now) {
    closed.push_back(RowOf(*span_));
    Span next;
    next.from = next.last = span_->last;
    next.last_energy_j = span_->last_energy_j;
    if (next.last_energy_j) next.energy_j = 0;
    span_ = next;
  }
  for (store::GpuUsage& row : closed) {
    if (std::isnan(row.energy_j) && energy_shown_by_another) row.energy_j = 0;
  }
  std::ranges::move(closed, std::back_inserter(rows));
}

}  // namespace carma::daemon
