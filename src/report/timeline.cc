// Draws the figures that show tasks over time.
#include "report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "report/lines.h"
#include "report/timeline_parts.h"

namespace carma::report {

using base::Seconds;

namespace {

constexpr double kBandGap = 5;
constexpr std::size_t kColours = 8;

// One attempt on one GPU.
struct Block {
  const RunTask* task = nullptr;
  const Attempt* attempt = nullptr;
  std::size_t lane = 0;
};

struct Band {
  std::vector<Block> blocks;  // by start
  std::size_t lanes = 1;
};

// Each attempt takes the lowest lane that is free at its start.
std::vector<Band> LayOut(const RunRecord& run) {
  std::vector<Band> bands(run.gpus.size());
  for (const RunTask& task : run.tasks) {
    for (const Attempt& attempt : task.attempts) {
      for (const int gpu : attempt.gpus)
        bands[static_cast<std::size_t>(gpu)].blocks.push_back({&task, &attempt});
    }
  }
  for (Band& band : bands) {
    std::ranges::stable_sort(band.blocks, [](const Block& a, const Block& b) {
      return a.attempt->started < b.attempt->started;
    });
    std::vector<core::Time> free_from;
    for (Block& block : band.blocks) {
      const auto free = std::ranges::find_if(
          free_from, [&](core::Time time) { return time <= block.attempt->started; });
      block.lane = static_cast<std::size_t>(free - free_from.begin());
      if (free == free_from.end()) free_from.emplace_back();
      free_from[block.lane] = block.attempt->ended;
    }
    band.lanes = std::max<std::size_t>(1, free_from.size());
  }
  return bands;
}

std::string EndText(AttemptEnd end) {
  if (end == AttemptEnd::kUnfinished) return "still running";
  std::string text(base::WordOf(end));
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string Tip(const Block& block) {
  const RunTask& task = *block.task;
  const Attempt& attempt = *block.attempt;
  std::string tip = fmt::format("task {} {}", task.id, base::Printable(task.name, 60));
  if (!task.group.empty()) tip += " (" + base::Printable(task.group, 40) + ")";
  tip += fmt::format(": ran {} after {}, {}", SpanText(Seconds(attempt.ended - attempt.started)),
                     SpanText(Seconds(attempt.started - task.submitted)), EndText(attempt.end));
  return tip;
}

std::string ColourOf(const RunTask& task, const TimelineFrame& frame) {
  const auto found = frame.colours.find(task.group);
  return fmt::format("c{}", found == frame.colours.end() ? kColours - 1 : found->second);
}

std::string Cross(double x, double y, double size) {
  return fmt::format("M{0} {2}L{1} {3}M{0} {3}L{1} {2}", Coordinate(x - size), Coordinate(x + size),
                     Coordinate(y - size), Coordinate(y + size));
}

void DrawBlock(Svg& svg, const Block& block, const RunRecord& run, const TimelineFrame& frame,
               double top, std::string& crosses) {
  constexpr double kLetter = 5.4;  // width of a letter of class "inside"
  const Scale x = TimeScale(frame);
  const double from = x(Since(run, block.attempt->started));
  const double to = x(Since(run, block.attempt->ended));
  const double y = top + static_cast<double>(block.lane) * frame.gantt_lane;
  // The minimum width keeps even the shortest task visible.
  const double width = std::max(0.6, to - from);
  const double gap = frame.gantt_lane > 5 ? 1 : 0.4;
  svg.Rect(from, y, width, frame.gantt_lane - gap,
           "task " + ColourOf(*block.task, frame) +
               (block.attempt->end == AttemptEnd::kSucceeded ? "" : " broken"),
           Tip(block));
  const auto letters = static_cast<std::size_t>(std::max(0.0, (width - 6) / kLetter));
  if (frame.gantt_lane >= 9 && letters >= 4) {
    const std::string name = base::Printable(block.task->name, 60);
    if (name.size() <= letters) svg.Text(from + 3, y + frame.gantt_lane - 3.5, name, "inside");
  }
  if (block.attempt->end == AttemptEnd::kOutOfMemory)
    crosses += Cross(to, y + (frame.gantt_lane - gap) / 2, std::min(4.0, frame.gantt_lane / 2));
}

std::string TasksOneByOne(const RunRecord& run, const TimelineFrame& frame) {
  const std::vector<Band> bands = LayOut(run);
  double height = kTop;
  for (const Band& band : bands)
    height += static_cast<double>(band.lanes) * frame.gantt_lane + kBandGap;
  Svg svg(frame.width, height + kAxis, "Tasks on each GPU over time");
  std::string crosses;
  double y = kTop;
  for (const Band& band : bands) {
    const double band_height = static_cast<double>(band.lanes) * frame.gantt_lane;
    svg.Rect(kLeft, y, frame.width - kRight - kLeft, band_height, "band");
    y += band_height + kBandGap;
  }
  DrawTimeAxis(svg, frame, kTop, height);
  y = kTop;
  for (std::size_t gpu = 0; gpu < bands.size(); ++gpu) {
    const double band_height = static_cast<double>(bands[gpu].lanes) * frame.gantt_lane;
    svg.Text(kLeft - 6, y + band_height / 2 + 4, base::Printable(run.gpus[gpu].name, 11),
             "label end");
    for (const Block& block : bands[gpu].blocks) DrawBlock(svg, block, run, frame, y, crosses);
    y += band_height + kBandGap;
  }
  svg.Path(crosses, "oom", "out of memory");
  return std::move(svg).Finish();
}

// Number of running tasks per cell. A row is a group of neighbouring GPUs, and a column is a time
// span; all columns cover equal spans.
struct Density {
  std::size_t gpus_per_row = 1;
  std::size_t rows = 0;
  double column_s = 1;
  std::vector<double> tasks;         // mean per GPU, row by row
  std::vector<std::size_t> crashes;  // by column
};
constexpr std::size_t kColumns = 240;

Density DensityOf(const RunRecord& run, double length_s) {
  Density density;
  const std::size_t gpus = run.gpus.size();
  const std::size_t most_rows = std::min<std::size_t>(kMaxGanttGpus, gpus);
  density.gpus_per_row = (gpus + most_rows - 1) / most_rows;
  density.rows = (gpus + density.gpus_per_row - 1) / density.gpus_per_row;
  density.column_s = std::max(1e-9, length_s / kColumns);
  density.tasks.resize(density.rows * kColumns);
  density.crashes.resize(kColumns);
  const auto column_at = [&](double s) {
    return static_cast<std::size_t>(
        std::clamp(s / density.column_s, 0.0, static_cast<double>(kColumns - 1)));
  };
  const auto gpus_in = [&](std::size_t row) {
    return static_cast<double>(std::min(density.gpus_per_row, gpus - row * density.gpus_per_row));
  };
  for (const RunTask& task : run.tasks) {
    for (const Attempt& attempt : task.attempts) {
      const double from = Since(run, attempt.started), to = Since(run, attempt.ended);
      if (attempt.end == AttemptEnd::kOutOfMemory) ++density.crashes[column_at(to)];
      for (const int gpu : attempt.gpus) {
        const std::size_t row = static_cast<std::size_t>(gpu) / density.gpus_per_row;
        for (std::size_t c = column_at(from); c <= column_at(to); ++c) {
          const double start = static_cast<double>(c) * density.column_s;
          const double inside = std::min(to, start + density.column_s) - std::max(from, start);
          density.tasks[row * kColumns + c] +=
              std::max(0.0, inside) / (density.column_s * gpus_in(row));
        }
      }
    }
  }
  return density;
}

std::string TasksAsDensity(const RunRecord& run, const TimelineFrame& frame) {
  constexpr double kRow = 9;
  constexpr int kLevels = 8;
  const Density density = DensityOf(run, frame.length_s);
  const double crash_line = kTop + static_cast<double>(density.rows + 1) * kRow + 3;
  Svg svg(frame.width, crash_line + kAxis, "How many tasks ran on the GPUs over time");
  const Scale x = TimeScale(frame);
  const auto x_of = [&](std::size_t column) {
    return x(static_cast<double>(column) * density.column_s);
  };
  // Each level is one path; neighbouring cells of a level are joined.
  std::vector<std::string> cells(kLevels + 1);
  for (std::size_t row = 0; row < density.rows; ++row) {
    const double y = kTop + static_cast<double>(row) * kRow;
    const auto level_at = [&](std::size_t c) {
      const double share = density.tasks[row * kColumns + c] / frame.most_per_gpu;
      return static_cast<std::size_t>(std::ceil(std::min(1.0, share) * kLevels - 1e-9));
    };
    for (std::size_t c = 0, end = 0; c < kColumns; c = end) {
      while (end < kColumns && level_at(end) == level_at(c)) ++end;
      const std::string width = Coordinate(x_of(end) - x_of(c));
      cells[level_at(c)] += fmt::format("M{} {}h{}v{}h-{}z", Coordinate(x_of(c)), Coordinate(y),
                                        width, Coordinate(kRow - 1), width);
    }
    if (row % 4 != 0) continue;
    svg.Text(kLeft - 6, y + kRow - 1,
             base::Printable(run.gpus[row * density.gpus_per_row].name, 11), "label end");
  }
  for (std::size_t level = 1; level <= kLevels; ++level) {  // level 0 is not drawn
    svg.Path(cells[level], fmt::format("density d{}", level),
             fmt::format("tasks per GPU: up to {:.2g}",
                         frame.most_per_gpu * static_cast<double>(level) / kLevels));
  }
  const std::size_t most = *std::ranges::max_element(density.crashes);
  std::string crashes;
  for (std::size_t c = 0; c < kColumns && most > 0; ++c) {
    if (density.crashes[c] == 0) continue;
    const double height =
        kRow * static_cast<double>(density.crashes[c]) / static_cast<double>(most);
    crashes += fmt::format("M{0} {1}V{2}H{3}V{1}z", Coordinate(x_of(c)), Coordinate(crash_line),
                           Coordinate(crash_line - height), Coordinate(x_of(c + 1)));
  }
  svg.Path(crashes, "crashes",
           fmt::format("up to {} out of memory at the same time", base::Counted(most, "task")));
  if (most > 0) svg.Text(kLeft - 6, crash_line, "crashes", "label end");
  DrawTimeAxis(svg, frame, crash_line, crash_line);
  return std::move(svg).Finish();
}

std::vector<XY> QueueCurve(const RunRecord& run) {
  // Changes in the number of waiting tasks. A task waits before each attempt and, if no
  // further attempt follows, until the task ends.
  std::map<core::Time, int> changes;
  for (const RunTask& task : run.tasks) {
    ++changes[task.submitted];
    for (const Attempt& attempt : task.attempts) {
      --changes[attempt.started];
      ++changes[attempt.WaitsFrom()];
    }
    const bool running = !task.attempts.empty() && !task.ended &&
                         task.attempts.back().end == AttemptEnd::kUnfinished;
    if (running) {
      --changes[task.attempts.back().ended];
    } else if (task.ended) {
      --changes[std::max(
          *task.ended, task.attempts.empty() ? task.submitted : task.attempts.back().WaitsFrom())];
    }
  }
  std::vector<XY> curve;
  int waiting = 0;
  for (const auto& [when, change] : changes) {
    if (change == 0) continue;
    waiting += change;
    curve.push_back({Since(run, when), static_cast<double>(waiting)});
  }
  return curve;
}

std::size_t AttemptsOf(const RunRecord& run) {
  std::size_t attempts = 0;
  for (const RunTask& task : run.tasks) attempts += task.attempts.size();
  return attempts;
}

// Weight classes always have the same colours. All other groups follow in alphabetical order.
std::map<std::string, std::size_t> ColoursOf(const std::vector<const RunRecord*>& runs) {
  constexpr std::array<std::string_view, 3> kWeights{"light", "medium", "heavy"};
  std::map<std::string, std::size_t> colours;
  for (const RunRecord* run : runs) {
    for (const RunTask& task : run->tasks) colours.try_emplace(task.group, kColours);
  }
  std::size_t next = 0;
  for (const std::string_view& weight : kWeights) {
    if (const auto found = colours.find(std::string(weight)); found != colours.end()) {
      found->second = static_cast<std::size_t>(&weight - kWeights.data());
      next = kWeights.size();
    }
  }
  for (auto& [group, colour] : colours) {
    if (colour == kColours) colour = std::min(next++, kColours - 1);
  }
  return colours;
}

}  // namespace

Scale TimeScale(const TimelineFrame& frame) {
  return {.low = 0, .high = frame.length_s, .from = kLeft, .to = frame.width - kRight};
}

double Since(const RunRecord& run, core::Time when) {
  return Seconds(when - run.from);
}

void DrawTimeAxis(Svg& svg, const TimelineFrame& frame, double top, double bottom) {
  const Scale x = TimeScale(frame);
  const int most = std::max(2, static_cast<int>(frame.width / 70));
  const std::vector<Tick> ticks = frame.clock_from_s
                                      ? ClockTicks(*frame.clock_from_s, frame.length_s, most)
                                      : TimeTicks(frame.length_s, most);
  for (const Tick& tick : ticks) {
    svg.Line(x(tick.at), top, x(tick.at), bottom, "rule");
    svg.Text(x(tick.at), bottom + 13, tick.text, "tick mid");
  }
}

std::string Note(const TimelineFrame& frame, std::string_view text) {
  Svg svg(frame.width, 30, text);
  svg.Text(kLeft, 19, text, "tick");
  return std::move(svg).Finish();
}

bool DrawnOneByOne(const RunRecord& run) {
  return run.gpus.size() <= kMaxGanttGpus && AttemptsOf(run) <= kMaxGanttAttempts;
}

TimelineFrame FrameFor(const std::vector<const RunRecord*>& runs, double width) {
  TimelineFrame frame{.width = width, .colours = ColoursOf(runs)};
  double memory_mib = 0, power_w = 0, waiting = 0;
  std::size_t lanes = 1;
  for (const RunRecord* run : runs) {
    frame.length_s = std::max(frame.length_s, Since(*run, run->to));
    for (std::size_t i = 0; i < run->gpus.size(); ++i) {
      const RunGpu& gpu = run->gpus[i];
      memory_mib = std::max(memory_mib, static_cast<double>(gpu.usable_mib));
      for (const GpuPoint& point : gpu.points) {
        memory_mib = std::fmax(memory_mib, point.used_mib);
        power_w = std::fmax(power_w, point.power_w);
      }
      if (run->gpus.size() > kStripGpus) continue;  // the figure shows the mean, which is lower
      for (const XY& point : PromisedCurve(*run, static_cast<int>(i)))
        memory_mib = std::fmax(memory_mib, point.y * 1024);
    }
    for (const XY& point : QueueCurve(*run)) waiting = std::max(waiting, point.y);
  }
  for (const RunRecord* run : runs) {
    if (run->gpus.empty()) continue;
    if (!DrawnOneByOne(*run)) {
      const std::vector<double> tasks = DensityOf(*run, frame.length_s).tasks;
      frame.most_per_gpu = std::max(frame.most_per_gpu, *std::ranges::max_element(tasks));
      continue;
    }
    std::size_t of_run = 0;
    for (const Band& band : LayOut(*run)) of_run += band.lanes;
    lanes = std::max(lanes, of_run);
  }
  frame.memory_end_mib = NiceEnd(memory_mib / 1024) * 1024;
  frame.power_end_w = NiceEnd(power_w);
  frame.queue_end = NiceEnd(waiting);
  constexpr double kWantedHeight = 300;
  frame.gantt_lane = std::clamp(kWantedHeight / static_cast<double>(lanes), 3.0, 14.0);
  return frame;
}

std::string Gantt(const RunRecord& run, const TimelineFrame& frame) {
  if (run.gpus.empty() || AttemptsOf(run) == 0) return Note(frame, "No tasks have run.");
  return DrawnOneByOne(run) ? TasksOneByOne(run, frame) : TasksAsDensity(run, frame);
}

std::string QueueChart(const RunRecord& run, const TimelineFrame& frame) {
  constexpr double kHeight = 44;
  const std::vector<XY> curve = Thin(QueueCurve(run), kMostPoints);
  if (curve.empty()) return Note(frame, "No tasks were submitted.");
  Svg svg(frame.width, kTop + kHeight + kAxis, "Waiting tasks over time");
  DrawTimeAxis(svg, frame, kTop, kTop + kHeight);
  const Scale x = TimeScale(frame);
  const Scale y{.low = 0, .high = frame.queue_end, .from = kTop + kHeight, .to = kTop};
  svg.Text(kLeft - 6, kTop + kHeight / 2 + 4, "waiting", "label end");
  const double end_s = Since(run, run.to);
  svg.Path(StepArea(curve, end_s, x, y), "area");
  DrawValueAxis(svg, y, frame, "");
  svg.Path(StepPath(curve, end_s, x, y), "curve");
  return std::move(svg).Finish();
}

}  // namespace carma::report
