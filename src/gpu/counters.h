// One table of all numbers in a Reading: their names in files and output, and for activity counters
// their numbers in GPM and DCGM.
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
  std::string_view dcgm_title;  // above the column of `dcgmi dmon`
};

// SM activity comes first: without it the others are not read.
std::span<const Counter> Counters();

// Stores a source's value, given in its own unit. False: impossible; the value stays absent.
bool StoreGpm(const Counter& counter, double said, Reading& reading);
bool StoreDcgm(const Counter& counter, double said, Reading& reading);

// The single numbers of a Reading that are not counters.
struct Gauge {
  std::string_view name;
  std::optional<double> Reading::*value;
  double high;  // larger ones are invalid
};
std::span<const Gauge> Gauges();

}  // namespace carma::gpu
