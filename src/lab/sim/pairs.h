// Measured pairs of tasks on one GPU, held against models of how they slow each other down: two at
// a time and alone with each other, so that nothing hides an error of the model.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/task.h"

namespace carma::sim {

inline constexpr std::size_t kMaxPairs = 100'000;

// One of two tasks that ran beside each other.
struct PairedTask {
  double speed = 1;        // of alone
  double utilization = 0;  // alone, 0..1: its SM activity, or at least that where nvidia-smi tells
  double memory = 0;       // alone, share of time in which the memory was read or written, 0..1
};
using MeasuredPair = std::array<PairedTask, 2>;

struct MeasuredPairs {
  std::vector<MeasuredPair> streams;  // they took turns
  std::vector<MeasuredPair> mps;
};
// CSV with speed1, speed2 (of alone), u1, u2 (GPU utilisation or SM activity alone, percent), m1
// and m2 (that of the memory); method ("streams" or "mps"), which may be missing: streams. Other
// columns are passed over. At least one pair. Errors: kInvalid "path: line 7: …".
base::Result<MeasuredPairs> ParsePairs(std::string_view csv, std::string_view path);

// How well a form tells the speeds, each task of a pair counted.
struct PairAgreement {
  std::string form;              // "1 / (1 + 0.75 u m)", the factor filled in
  std::optional<double> factor;  // empty: it has none
  bool fitted = false;           // the factor is the best one for these pairs
  double mean_error = 0;         // mean of |predicted - measured|
  double r2 = 0;                 // against the mean of the measured ones
};

// In order: no interference; the simulator's model of the method (of streams, or of MPS for tasks
// of which only the activity is known) with its own factor, and with the factor that is best for
// these pairs (least squares); 1 / (1 + k u m) with the best k, u the task's own utilisation and m
// its neighbour's memory; of streams besides what fits the utilisation that nvidia-smi tells, which
// is not SM activity. The simulator's model is asked with the utilisation in place of the SM
// activity, which may overstate what a task does. pairs: not empty.
std::vector<PairAgreement> ComparePairs(core::SharingMethod method,
                                        const std::vector<MeasuredPair>& pairs);

}  // namespace carma::sim
