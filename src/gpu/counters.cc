#include "gpu/counters.h"

namespace carma::gpu {
namespace {

constexpr Counter kCounters[] = {
    {"sm_active", &Reading::sm_active, CounterUnit::kFraction, 2, 1002, "SMACT"},
    {"sm_occupancy", &Reading::sm_occupancy, CounterUnit::kFraction, 3, 1003, "SMOCC"},
    {"graphics_active", &Reading::graphics_active, CounterUnit::kFraction, 1, 1001, "GRACT"},
    {"tensor_active", &Reading::tensor_active, CounterUnit::kFraction, 5, 1004, "TENSO"},
    {"dram_active", &Reading::dram_active, CounterUnit::kFraction, 10, 1005, "DRAMA"},
    {"fp64_active", &Reading::fp64_active, CounterUnit::kFraction, 11, 1006, "FP64A"},
    {"fp32_active", &Reading::fp32_active, CounterUnit::kFraction, 12, 1007, "FP32A"},
    {"fp16_active", &Reading::fp16_active, CounterUnit::kFraction, 13, 1008, "FP16A"},
    {"pcie_tx_bytes_s", &Reading::pcie_tx_bytes_s, CounterUnit::kRate, 20, 1009, "PCITX"},
    {"pcie_rx_bytes_s", &Reading::pcie_rx_bytes_s, CounterUnit::kRate, 21, 1010, "PCIRX"},
    {"nvlink_tx_bytes_s", &Reading::nvlink_tx_bytes_s, CounterUnit::kRate, 61, 1011, "NVLTX"},
    {"nvlink_rx_bytes_s", &Reading::nvlink_rx_bytes_s, CounterUnit::kRate, 60, 1012, "NVLRX"},
};

constexpr Gauge kGauges[] = {
    {"utilization", &Reading::utilization, 1},
    {"power_w", &Reading::power_w, 100'000},
    {"energy_j", &Reading::energy_j, 1e15},
    {"temperature_c", &Reading::temperature_c, 250},
    {"sm_clock_mhz", &Reading::sm_clock_mhz, 100'000},
    {"memory_clock_mhz", &Reading::memory_clock_mhz, 100'000},
};

template <class Unit>
bool Keep(const std::optional<Unit>& believed, std::optional<double>& value) {
  if (!believed) return false;
  value = believed->value();
  return true;
}

}  // namespace

std::span<const Counter> Counters() {
  return kCounters;
}

std::span<const Gauge> Gauges() {
  return kGauges;
}

bool StoreGpm(const Counter& counter, double said, Reading& reading) {
  std::optional<double>& value = reading.*counter.value;
  return counter.unit == CounterUnit::kFraction ? Keep(ToFraction(Percent(said)), value)
                                                : Keep(ToRate(MibPerSecond(said)), value);
}

bool StoreDcgm(const Counter& counter, double said, Reading& reading) {
  std::optional<double>& value = reading.*counter.value;
  return counter.unit == CounterUnit::kFraction ? Keep(ToFraction(said), value)
                                                : Keep(ToRate(said), value);
}

}  // namespace carma::gpu
