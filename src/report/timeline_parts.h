// Helpers for the figures that show tasks and GPUs over time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/run.h"
#include "report/svg.h"
#include "report/timeline.h"

namespace carma::report {

inline constexpr double kLeft = 62, kRight = 44, kTop = 4, kAxis = 20;
inline constexpr std::size_t kMostPoints = 2'000;
inline constexpr std::size_t kStripGpus = 8;  // if there are more, they share one strip

Scale TimeScale(const TimelineFrame& frame);
// Seconds since the run began.
double Since(const RunRecord& run, core::Time when);
void DrawTimeAxis(Svg& svg, const TimelineFrame& frame, double top, double bottom);
void DrawValueAxis(Svg& svg, const Scale& y, const TimelineFrame& frame, std::string_view unit);
// A figure that consists of a line of text.
std::string Note(const TimelineFrame& frame, std::string_view text);
// GiB promised on this GPU, or on all GPUs.
std::vector<XY> PromisedCurve(const RunRecord& run, std::optional<int> gpu);

}  // namespace carma::report
