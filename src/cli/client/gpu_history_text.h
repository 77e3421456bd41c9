// GPUs over time, for `carma gpus --history`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/gpu_view.h"

namespace carma::cli {

// The requested span: [from_ms, to_ms) in at most `points` equal parts.
struct HistorySpan {
  std::int64_t from_ms = 0;
  std::int64_t to_ms = 0;
  int points = 60;
  std::int64_t WidthMs() const { return (to_ms - from_ms + points - 1) / points; }
};

// Characters of a line besides its points.
inline constexpr int kHistoryMargin = 20;

// "From … to …, 1:00 a character".
std::string HistoryTitle(const HistorySpan& span);
// One line of small bars per kind of value, one character per point. total_mib: memory of a full
// bar.
std::string HistoryBars(const api::GpuHistoryView& gpu, std::int64_t total_mib,
                        const HistorySpan& span);
// One row per GPU and span; unknown values are empty.
std::string HistoryCsv(const std::vector<api::GpuHistoryView>& gpus);

}  // namespace carma::cli
