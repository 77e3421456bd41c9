#include "report/html_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "report/svg.h"
#include "report/timeline.h"

namespace carma::report {
namespace {

// colours: true if the drawings use the colours of task groups, which the legend then explains.
void PutLegend(std::string& out, const TimelineFrame& frame, bool colours, bool crashes,
               bool broken) {
  out += "<div class=\"key\">";
  std::optional<std::size_t> last;
  std::vector<std::pair<std::size_t, std::string>> by_colour;
  if (colours) {
    for (const auto& [group, colour] : frame.colours) by_colour.emplace_back(colour, group);
  }
  std::ranges::sort(by_colour);
  for (const auto& [colour, group] : by_colour) {
    if (colour == last) continue;  // further groups share the last colour
    last = colour;
    const bool shared = std::ranges::count_if(
                            by_colour, [&](const auto& each) { return each.first == colour; }) > 1;
    if (group.empty() && frame.colours.size() == 1) continue;
    Put(out, "<span>{}{}</span>",
        Swatch(fmt::format(R"(<rect class="c{}" y="1" width="22" height="10"/>)", colour)),
        shared          ? "others"
        : group.empty() ? "without group"
                        : Escape(group, 40));
  }
  if (crashes) {
    Put(out, "<span>{}out of memory</span>",
        Swatch(R"(<path class="oom" d="M7 1L15 9M7 9L15 1"/>)"));
  }
  if (broken) {
    Put(out, "<span>{}pale: failed or not finished</span>",
        Swatch(R"(<rect class="c0 broken" y="1" width="22" height="10"/>)"));
  }
  out += "</div>\n";
}

// True if the drawings are laid out three to a row.
bool InThrees(const std::vector<const RunRecord*>& runs) {
  return runs.size() % 3 == 0;
}

template <class Draw>
void PutRuns(std::string& out, std::string_view heading, const std::vector<const RunRecord*>& runs,
             std::string_view extra, Draw draw) {
  Put(out, "<section class=\"whole\"><h2>{}</h2>{}<div class=\"grid{}\">\n", heading, extra,
      runs.size() == 1 ? " one"
      : InThrees(runs) ? " three"
                       : " runs");
  for (const RunRecord* run : runs)
    PutFigure(out, runs.size() == 1 ? run->label : NameOf(run->label), draw(*run));
  out += "</div></section>\n";
}

bool AnyPromise(const std::vector<const RunRecord*>& runs) {
  return std::ranges::any_of(runs, [](const RunRecord* run) {
    return std::ranges::any_of(run->tasks, [](const RunTask& task) {
      return std::ranges::any_of(task.attempts,
                                 [](const Attempt& each) { return each.promised_mib.has_value(); });
    });
  });
}

std::string MemoryKey() {
  return fmt::format(
      "<div class=\"key\"><span>{}in use by all processes</span><span>{}promised to tasks when "
      "they started</span></div>\n",
      Swatch(
          R"(<rect class="area" y="1" width="22" height="10"/><path class="curve" d="M0 1H22"/>)"),
      Swatch(R"(<path class="promise" d="M0 6H22"/>)"));
}

void PutGpus(std::string& out, const std::vector<const RunRecord*>& runs,
             const TimelineFrame& frame) {
  constexpr std::pair<const char*, Quantity> kQuantities[] = {{"GPU memory", Quantity::kMemory},
                                                              {"SM activity", Quantity::kSmActive},
                                                              {"Power", Quantity::kPower}};
  for (const auto& [heading, quantity] : kQuantities) {
    const bool told = quantity == Quantity::kMemory && AnyPromise(runs);
    PutRuns(out, heading, runs, told ? MemoryKey() : "",
            [&, q = quantity](const RunRecord& run) { return GpuChart(run, q, frame); });
  }
}

std::optional<double> ClockFrom(const RunRecord& run, const std::optional<Clock>& clock) {
  if (!clock) return std::nullopt;
  return static_cast<double>(base::ToMs(run.from + clock->ahead_of_utc)) / 1000;
}

}  // namespace

void PutTimelines(std::string& out, const Recorded& cases, const std::optional<Clock>& clock) {
  std::vector<const RunRecord*> runs;
  for (const auto& [label, records] : cases) {
    if (runs.size() < kMaxDrawnRuns) runs.push_back(records.front());
  }
  if (runs.empty()) return;
  TimelineFrame frame = FrameFor(runs, runs.size() == 1 ? kWhole : InThrees(runs) ? kThird : kHalf);
  if (runs.size() == 1) frame.clock_from_s = ClockFrom(*runs.front(), clock);
  bool crashes = false, broken = false, all_one_by_one = true, any_one_by_one = false;
  for (const RunRecord* run : runs) {
    const bool one_by_one = DrawnOneByOne(*run);
    all_one_by_one = all_one_by_one && one_by_one;
    any_one_by_one = any_one_by_one || one_by_one;
    for (const RunTask& task : run->tasks) {
      for (const Attempt& attempt : task.attempts) {
        crashes = crashes || attempt.end == AttemptEnd::kOutOfMemory;
        broken = broken || attempt.end != AttemptEnd::kSucceeded;
      }
    }
  }
  std::string legend;
  if (cases.size() > runs.size())
    Put(legend, "<p>Only the first {} of {} runs with records are shown.</p>", runs.size(),
        cases.size());
  if (!all_one_by_one) {
    Put(legend,
        "<p>A run with more than {} executions or {} GPUs is drawn as the mean number of tasks per "
        "GPU; darker cells have more tasks.</p>",
        kMaxGanttAttempts, kMaxGanttGpus);
  }
  PutLegend(legend, frame, any_one_by_one, crashes, any_one_by_one && broken);
  PutRuns(out, "Tasks on the GPUs", runs, legend,
          [&](const RunRecord& run) { return Gantt(run, frame); });
  PutRuns(out, "Waiting tasks", runs, "",
          [&](const RunRecord& run) { return QueueChart(run, frame); });
  PutGpus(out, runs, frame);
}

void PutGpus(std::string& out, const RunRecord& run, Clock clock) {
  const std::vector<const RunRecord*> runs{&run};
  TimelineFrame frame = FrameFor(runs, kWhole);
  frame.clock_from_s = ClockFrom(run, clock);
  PutGpus(out, runs, frame);
}

}  // namespace carma::report
