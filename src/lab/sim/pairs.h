// Compares measured pairs of tasks on one GPU with models of their slowdown. Only two tasks at a
// time, so that nothing hides an error of the model.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/sharing.h"

namespace carma::sim {

inline constexpr std::size_t kMaxPairs = 100'000;

// One task of a pair.
struct PairedTask {
  double speed = 1;        // relative to alone
  double utilization = 0;  // alone, 0..1: SM activity, or nvidia-smi's upper bound
  double memory = 0;       // alone, share of time in which the memory was read or written, 0..1
};
using MeasuredPair = std::array<PairedTask, 2>;

struct MeasuredPairs {
  std::vector<MeasuredPair> streams;  // they took turns
  std::vector<MeasuredPair> mps;
};
// CSV with speed1, speed2 (relative to running alone), u1, u2 (GPU utilisation or SM activity
// alone, percent), m1 and m2 (memory utilisation alone, percent); method ("streams" or "mps";
// default: streams). Other columns are ignored. At least one pair. Errors: kInvalid "path: line 7:
// …".
Result<MeasuredPairs> ParsePairs(std::string_view csv, std::string_view path);

// How well a formula predicts the speeds, counting each task of a pair.
struct PairAgreement {
  std::string form;              // "1 / (1 + 0.75 u m)", with the factor
  std::optional<double> factor;  // empty: it has none
  bool fitted = false;           // the factor is the best one for these pairs
  double mean_error = 0;         // mean of |predicted - measured|
  double r2 = 0;                 // against the mean of the measured ones
};

// In order: no interference; the simulator's model of the method (streams, or MPS for tasks with
// only known activity) with its own factor, and with the best factor for these pairs (least
// squares); 1 / (1 + k u m) with the best k, the task's own utilisation u and its neighbour's
// memory m; for streams also a fit to nvidia-smi's utilisation, which is not SM activity. The
// simulator's model gets the utilisation as SM activity, which may overstate a task's work. pairs:
// not empty.
std::vector<PairAgreement> ComparePairs(core::SharingMethod method,
                                        const std::vector<MeasuredPair>& pairs);

}  // namespace carma::sim
