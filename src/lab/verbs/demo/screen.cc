// Draws the `carma demo` screen and the final charts, and describes events on CARMA's server.
#include "lab/verbs/demo/screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/text.h"

namespace carma::cli {
namespace {

using api::OverviewView;
using api::TaskRow;

constexpr int kGap = 3;  // columns between the two servers
constexpr int kLeastBar = 8;
constexpr int kLabelWidth = 30;

std::int64_t CountOf(const OverviewView& server, const std::set<std::string_view>& states) {
  std::int64_t sum = 0;
  for (const auto& [state, count] : server.task_counts) {
    if (states.contains(state)) sum += count;
  }
  return sum;
}

std::int64_t Running(const OverviewView& server) {
  return CountOf(server, {"launching", "running", "stopping"});
}

std::string Fitted(std::string_view text, int width) {
  const std::string cut = CutTo(text, static_cast<std::size_t>(std::max(width, 1)));
  return cut + std::string(static_cast<std::size_t>(std::max(width, 1)) - ShownWidth(cut), ' ');
}

TopLine Whole(std::string_view text, int width, TopStyle style = TopStyle::kPlain) {
  return {{Fitted(text, width), style}};
}

TopLine Beside(TopLine left, TopLine right) {
  left.push_back({std::string(kGap, ' ')});
  for (TopPiece& piece : right) left.push_back(std::move(piece));
  return left;
}

std::string Hours(std::int64_t ms) {
  return fmt::format("{:.1f} h", static_cast<double>(ms) / 3.6e6);
}

// Formats a line such as "GPU 0 ||||||::   2 tasks  50% ▁▂▅": memory in use and promised memory,
// then the tasks and the activity.
TopLine GpuLine(const api::GpuGlance& gpu, int width, bool blocks) {
  const std::size_t count = gpu.tasks.size();
  const std::string tail =
      fmt::format(" {} {} {:>3}%", count, count == 1 ? "task " : "tasks",
                  std::lround(100 * gpu.sm_active_now.value_or(gpu.sm_active.value_or(0))));
  const std::string head = fmt::format("GPU {} ", gpu.index);
  constexpr int kPulse = 6;
  const int bar = width - static_cast<int>(head.size() + tail.size()) - kPulse - 3;
  if (bar < kLeastBar) return Whole(head + tail, width);
  TopLine line{{head}};
  for (TopPiece& piece : MemoryBar(gpu.used_mib, gpu.promised_mib, gpu.total_mib, bar))
    line.push_back(std::move(piece));
  line.push_back({Fitted(tail + " " + ActivityBars(gpu.recent, kPulse, blocks),
                         width - static_cast<int>(head.size()) - bar - 2)});
  return line;
}

TopLine CountLine(const DemoSide& side, std::int64_t tasks, int width) {
  const std::int64_t done = DemoDone(side.server);
  const std::int64_t running = Running(side.server);
  const std::int64_t waiting = CountOf(side.server, {"submitted", "estimating", "queued"});
  return Whole(fmt::format("{} of {} done, {} running, {} waiting", done, tasks, running, waiting),
               width, done == tasks ? TopStyle::kGood : TopStyle::kPlain);
}

TopLine DoneBar(const DemoSide& side, std::int64_t tasks, int width) {
  const auto filled = static_cast<std::size_t>(
      tasks > 0 ? static_cast<std::int64_t>(width) * DemoDone(side.server) / tasks : 0);
  const std::size_t all = static_cast<std::size_t>(width);
  return {{std::string(std::min(filled, all), '='), TopStyle::kGood},
          {std::string(all - std::min(filled, all), '.'), TopStyle::kFaint}};
}

}  // namespace

std::int64_t DemoDone(const OverviewView& server) {
  return CountOf(server, {"succeeded"});
}

std::vector<TopLine> DrawDemo(const DemoData& data, const TopSize& size) {
  std::vector<TopLine> lines;
  const int half = (size.columns - kGap) / 2;
  const DemoSide& left = data.sides.front();
  const DemoSide& right = data.sides.back();
  const auto both = [&](auto draw) { lines.push_back(Beside(draw(left), draw(right))); };
  lines.push_back(
      Whole(fmt::format("CARMA demo: the same {} training tasks on two simulated servers, "
                        "{:.0f} times as fast as real time",
                        data.tasks, data.speed),
            size.columns, TopStyle::kTitle));
  lines.push_back({});
  both([&](const DemoSide& side) {
    return Whole(fmt::format("{}, {}", side.title, Hours(side.server.now_ms - side.began_ms)), half,
                 TopStyle::kTitle);
  });
  const std::size_t gpus = std::min(left.server.gpus.size(), right.server.gpus.size());
  for (std::size_t i = 0; i < gpus; ++i)
    both([&](const DemoSide& side) { return GpuLine(side.server.gpus[i], half, size.blocks); });
  both([&](const DemoSide& side) { return CountLine(side, data.tasks, half); });
  both([&](const DemoSide& side) { return DoneBar(side, data.tasks, half); });
  lines.push_back({});
  lines.push_back(Whole(
      "Per GPU: memory (| in use, : promised), number of tasks, SM activity now and over time.",
      size.columns, TopStyle::kFaint));
  lines.push_back({});
  const std::size_t room = size.rows > static_cast<int>(lines.size()) + 1
                               ? static_cast<std::size_t>(size.rows) - lines.size() - 1
                               : 0;
  const std::size_t first = data.news.size() > room ? data.news.size() - room : 0;
  for (std::size_t i = first; i < data.news.size(); ++i)
    lines.push_back(Whole(data.news[i], size.columns));
  lines.resize(static_cast<std::size_t>(std::max(size.rows, 1)));
  lines.back() = Whole("q ends the demo", size.columns, TopStyle::kFaint);
  return lines;
}

std::string DemoLine(const DemoData& data) {
  std::string text;
  for (const DemoSide& side : data.sides) {
    text += fmt::format("{}{}: {} of {} done, {} running, {}", text.empty() ? "" : "; ", side.title,
                        DemoDone(side.server), data.tasks, Running(side.server),
                        Hours(side.server.now_ms - side.began_ms));
  }
  return text;
}

std::vector<std::string> DemoNews::Look(const OverviewView& server, std::int64_t began_ms) {
  std::vector<std::string> news;
  const auto tell = [&](const TaskRow& task, const std::string& what) {
    news.push_back(fmt::format("{:>7}  task {} ({}) {}", Hours(server.now_ms - began_ms), task.id,
                               task.name, what));
  };
  const auto look = [&](const TaskRow& task, bool running, bool ended) {
    Seen& seen = seen_[task.id];
    if (task.ooms > seen.ooms) tell(task, "ran out of GPU memory and was requeued");
    if (running && task.ooms > 0 && task.attempt > seen.attempt) {
      tell(task, fmt::format("restarted on GPU {} with {} promised",
                             fmt::join(task.gpu_indices, ", "), base::FormatMib(task.claim_mib)));
    }
    if (ended && !seen.ended && task.ooms > 0) tell(task, task.state);
    seen.ooms = task.ooms;
    if (running || ended) seen.attempt = task.attempt;
    seen.ended = ended;
  };
  for (const TaskRow& task : server.waiting) look(task, false, false);
  for (const TaskRow& task : server.running) look(task, true, false);
  for (const TaskRow& task : server.ended) look(task, false, true);
  return news;
}

std::string DemoChart(const report::Metrics& exclusive, const report::Metrics& carma,
                      const Screen& screen) {
  struct Quantity {
    const char* name;
    double exclusive, carma;
    const char* unit;
    double divisor;
  };
  std::vector<Quantity> quantities{
      {"time for all tasks", exclusive.trace_total_s, carma.trace_total_s, "h", 3600},
      {"mean completion time", exclusive.jct.mean, carma.jct.mean, "min", 60},
      {"mean waiting time", exclusive.waiting.mean, carma.waiting.mean, "min", 60}};
  if (exclusive.sm_active && carma.sm_active)
    quantities.push_back({"SM activity", *exclusive.sm_active, *carma.sm_active, "%", 0.01});
  const int shown = screen.width == 0 ? 80 : std::min(screen.width, 100);
  const int width = std::max(shown - kLabelWidth - 24, 10);
  std::string text;
  for (const Quantity& each : quantities) {
    const double most = std::max({each.exclusive, each.carma, 1e-9});
    const auto row = [&](std::string_view name, std::string_view run, double value, Colour colour,
                         const std::string& change) {
      const auto length = static_cast<std::size_t>(std::lround(width * value / most));
      text += fmt::format("{:<21} {:<8} {} {:.1f} {}{}\n", name, run,
                          Paint(std::string(length, '#'), colour, screen), value / each.divisor,
                          each.unit, change);
    };
    row(each.name, "1 a GPU", each.exclusive, Colour::kFaint, "");
    const double change = 100 * (each.carma / std::max(each.exclusive, 1e-9) - 1);
    row("", "CARMA", each.carma, Colour::kGood, fmt::format(" ({:+.0f} %)", change));
  }
  return text;
}

}  // namespace carma::cli
