// Compares measured pairs of tasks on one GPU with models of their slowdown. With only two tasks at
// a time, no other effect can hide an error in the model.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/values/sharing.h"
#include "lab/sim/residency.h"

namespace carma::sim {

inline constexpr std::size_t kMaxPairs = 100'000;

struct PairedTask {
  double speed = 1;  // relative to running alone
  // SM activity when running alone, 0..1, or nvidia-smi's utilisation, an upper bound on it.
  double utilization = 0;
  double memory = 0;  // share of time with memory reads or writes when running alone, 0..1
};
using MeasuredPair = std::array<PairedTask, 2>;

struct MeasuredPairs {
  std::vector<MeasuredPair> streams;  // pairs that took turns
  std::vector<MeasuredPair> mps;
};
// Parses CSV with these columns, ignoring others:
//   speed1, speed2  speeds relative to running alone
//   u1, u2          GPU utilisation or SM activity when running alone, in percent
//   m1, m2          memory utilisation when running alone, in percent
//   method          optional: "streams" (default) or "mps"
// Returns kInvalid if there are no pairs, or "path:7: …" for an invalid row.
Result<MeasuredPairs> ParsePairs(std::string_view csv, std::string_view path);

// How well a formula predicts the speeds; each task of a pair counts separately.
struct PairAgreement : Agreement {
  std::string form = {};              // includes the factor: "1 / (1 + 0.75 u m)"
  std::optional<double> factor = {};  // empty: the formula has no factor
  bool fitted = false;                // the factor is the best one for these pairs
};

// Compares the pairs (at least one) with these formulas, in this order:
// - no interference,
// - the simulator's model of the method (for MPS, the guess from activities alone), first with its
//   own factor and then with the best factor for these pairs (least squares),
// - 1 / (1 + k u m) with the best k, where u is the task's own utilisation and m is its neighbour's
//   memory utilisation,
// - for streams only, a fit to nvidia-smi's utilisation.
// The simulator's model treats the utilisation as SM activity, which can overstate a task's work.
std::vector<PairAgreement> ComparePairs(core::SharingMethod method,
                                        const std::vector<MeasuredPair>& pairs);

}  // namespace carma::sim
