// Figures of one run over time: its tasks on the GPUs, and the GPUs themselves.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/run.h"

namespace carma::report {

// Common scales of adjacent figures, so that they can be compared.
struct TimelineFrame {
  double width = 560;
  double length_s = 0;                         // length of the time axis: the longest run
  std::optional<double> clock_from_s;          // for ClockTicks; if empty, the axis begins at 0
  double gantt_lane = 12;                      // height of a task's bar
  double memory_end_mib = 0;                   // end of the memory axis
  double power_end_w = 0;                      // end of the power axis
  double most_per_gpu = 1;                     // tasks per GPU: highest mean over a short span
  double queue_end = 1;                        // end of the waiting-tasks axis
  std::map<std::string, std::size_t> colours;  // CSS class of each group: c0 to c7
};

// The common scales for these runs.
TimelineFrame FrameFor(const std::vector<const RunRecord*>& runs, double width);

// Above these limits, Gantt() draws only the number of running tasks, not each task.
inline constexpr std::size_t kMaxGanttAttempts = 5'000;
inline constexpr std::size_t kMaxGanttGpus = 32;
bool DrawnOneByOne(const RunRecord& run);

// Draws a band for each GPU, with separate lanes for tasks that ran at the same time. Crosses mark
// tasks that ran out of memory.
std::string Gantt(const RunRecord& run, const TimelineFrame& frame);
// The number of waiting tasks over time.
std::string QueueChart(const RunRecord& run, const TimelineFrame& frame);

enum class Quantity { kMemory, kSmActive, kPower };
// Draws one strip per GPU. If there are many GPUs, draws their mean and the range from lowest to
// highest instead. For memory, also draws the promised memory. If nothing was reported, draws a
// line of text.
std::string GpuChart(const RunRecord& run, Quantity quantity, const TimelineFrame& frame);

}  // namespace carma::report
