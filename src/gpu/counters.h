// A table of all numbers in a Reading: their names in files and output, and the ids of activity
// counters in GPM and DCGM.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/probe.h"
#include "gpu/units.h"

namespace carma::gpu {

enum class CounterUnit {
  kFraction,  // GPM reports percent, DCGM 0..1
  kRate,      // GPM reports MiB/s, DCGM bytes/s
};

struct Counter {
  std::string_view name;  // as in recordings
  std::optional<double> Reading::*value;
  CounterUnit unit;
  std::uint32_t gpm;            // nvmlGpmMetricId_t
  int dcgm;                     // DCGM field id; names changed with DCGM 4.6, numbers did not
  std::string_view dcgm_title;  // column title of `dcgmi dmon`
};

// All counters. The first is SM activity; if it is not reported, the other counters are not read.
std::span<const Counter> Counters();

// These functions convert a value from the unit that GPM or DCGM uses and store it. They return
// false and leave the reading unchanged if the value is impossible.
bool StoreGpm(const Counter& counter, double said, Reading& reading);
bool StoreDcgm(const Counter& counter, double said, Reading& reading);

// A numeric field of Reading that is not a counter.
struct Gauge {
  std::string_view name;
  std::optional<double> Reading::*value;
  double high;  // larger values are invalid
};
std::span<const Gauge> Gauges();

}  // namespace carma::gpu
