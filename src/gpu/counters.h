// One table of everything that a Reading may say in numbers: its name wherever it is written down,
// and for the counters of activity the numbers by which GPM and DCGM call them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/probe.h"
#include "gpu/units.h"

namespace carma::gpu {

enum class CounterUnit {
  kFraction,  // GPM says percent, DCGM 0..1
  kRate,      // GPM says MiB/s, DCGM bytes/s
};

struct Counter {
  std::string_view name;  // as in recordings
  std::optional<double> Reading::*value;
  CounterUnit unit;
  std::uint32_t gpm;            // nvmlGpmMetricId_t
  int dcgm;                     // DCGM field id; names changed with DCGM 4.6, numbers did not
  std::string_view dcgm_title;  // above the column of `dcgmi dmon`
};

// SM activity comes first: without it the others are not asked for.
std::span<const Counter> Counters();

// Stores what a source said in its own unit. False: it cannot be true; the value stays absent.
bool StoreGpm(const Counter& counter, double said, Reading& reading);
bool StoreDcgm(const Counter& counter, double said, Reading& reading);

// The single numbers of a Reading that are no counters.
struct Gauge {
  std::string_view name;
  std::optional<double> Reading::*value;
  double high;  // larger ones are nonsense
};
std::span<const Gauge> Gauges();

}  // namespace carma::gpu
