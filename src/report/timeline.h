// Figures of one run over time: who ran where, and what the GPUs did.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/run.h"
#include "report/svg.h"

namespace carma::report {

// What figures that stand side by side share, so that they can be compared.
struct TimelineFrame {
  double width = 560;
  double length_s = 0;                         // of the time axis: the longest of the runs
  std::optional<double> clock_from_s;          // of ClockTicks; empty: the axis begins at 0
  double gantt_lane = 12;                      // height of one task's bar; FitLanes
  double memory_end_mib = 0;                   // end of the axis of memory
  double power_end_w = 0;                      // end of the axis of power
  double most_per_gpu = 1;                     // tasks on one GPU, as means of a short span
  double queue_end = 1;                        // end of the axis of waiting tasks
  std::map<std::string, std::size_t> colours;  // of groups: classes "c0" to "c7"
};

// The frame for these runs at this width.
TimelineFrame FrameFor(const std::vector<const RunRecord*>& runs, double width);

// More attempts or GPUs than this are drawn as how many tasks ran, not one by one.
inline constexpr std::size_t kMaxGanttAttempts = 5'000;
inline constexpr std::size_t kMaxGanttGpus = 32;
bool DrawnOneByOne(const RunRecord& run);

// One band per GPU; in it one lane per task that ran beside others. Crosses: out of memory.
std::string Gantt(const RunRecord& run, const TimelineFrame& frame);
// Tasks that wait over time.
std::string QueueChart(const RunRecord& run, const TimelineFrame& frame);

enum class Quantity { kMemory, kSmActive, kPower };
// One strip per GPU; of many GPUs the mean with the range from lowest to highest. Of memory also
// what was promised. A line of text where nothing was reported.
std::string GpuChart(const RunRecord& run, Quantity quantity, const TimelineFrame& frame);

}  // namespace carma::report
