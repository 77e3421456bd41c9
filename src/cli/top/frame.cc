// Draws the screen of `carma top`.
#include "cli/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/bars.h"
#include "cli/client/gpu_text.h"
#include "cli/client/task_words.h"
#include "cli/terminal.h"

namespace carma::cli {
namespace {

using api::GpuGlance;
using api::TaskView;

constexpr int kBarWidth = 20;
constexpr int kWideScreen = 120;
constexpr std::string_view kKeys =
    "Enter details  e why  l output  c cancel  h hold  s sort  / find  ? keys  q quit";

// Cuts or pads the text to `width` characters, and appends a space.
std::string Padded(std::string_view text, std::size_t width, bool right = false) {
  const std::string cut = CutTo(text, width);
  const std::string blanks(width - ShownWidth(cut), ' ');
  return (right ? blanks + cut : cut + blanks) + " ";
}

std::string GpuText(const TaskView& task) {
  if (task.gpus == 0) return "-";
  return Waits(task) ? fmt::format("x{}", task.gpus) : GpuIndices(task);
}

// The end of the task's row: what its user most needs to know.
std::string NoteText(const TaskView& task, const TopData& data) {
  if (HoldsGpus(task)) {
    std::string note;
    if (task.over_promise_mib)
      note += fmt::format("(uses {} more than promised) ", base::FormatMib(*task.over_promise_mib));
    if (!task.wrong_gpus.empty()) note += "(WrongDevice) ";
    if (task.idle_since_ms) note += "(IdleHolder) ";
    if (task.progress && task.progress->stalled) note += "(Stalled) ";
    if (task.progress) note += ProgressBrief(task.progress, data.server.now_ms) + "  ";
    const auto line = data.output.find(task.id);
    return base::Printable(note + (line == data.output.end() ? "" : line->second), 400);
  }
  if (Waits(task))
    return base::Printable(task.reason.empty() ? task.state
                                               : fmt::format("({}) {}", task.reason,
                                                             base::LocalTimes(task.reason_text)),
                           400);
  return base::Printable(EndText(task) + (task.exit_detail.empty() ? "" : ": " + task.exit_detail),
                         400);
}

bool Passes(const TaskView& task, const TopState& state) {
  if (state.mine && task.user != state.user) return false;
  const std::string part = base::ToLower(state.filter);
  const std::string* const texts[] = {&task.name, &task.user, &task.reason, &task.state};
  const auto has_part = [&](const std::string* text) {
    return base::ToLower(*text).contains(part);
  };
  return std::ranges::any_of(texts, has_part) || std::to_string(task.id) == part;
}

std::string_view SortName(TopSort sort) {
  constexpr std::array<std::string_view, 4> kNames{"queue", "user", "memory", "time"};
  return kNames[static_cast<std::size_t>(sort)];
}

std::int64_t MemoryOf(const TaskView& task) {
  if (HoldsGpus(task)) return task.observed_mib.value_or(0);
  return HasEnded(task) ? task.peak_mib : ExpectedMib(task);
}

TopLine HeadLine(const TopData& data) {
  const api::OverviewView& server = data.server;
  const TaskTotals tasks = TotalsOf(server.task_counts);
  std::int64_t used = 0, total = 0;
  double watts = 0;
  for (const GpuGlance& gpu : server.gpus) {
    used += gpu.used_mib;
    total += gpu.total_mib;
    watts += gpu.power_w.value_or(0);
  }
  const std::string clock =
      server.now_ms == 0 ? "" : base::FormatTime(base::FromMs(server.now_ms)).substr(11);
  return {{fmt::format("{}  {}  ", base::Printable(server.host, 40), clock), TopStyle::kTitle},
          {fmt::format("{} running", tasks.running), TopStyle::kGood},
          {", "},
          {fmt::format("{} waiting", tasks.waiting), TopStyle::kWaiting},
          {fmt::format(", {} of {} used{}{}", base::FormatMib(used), base::FormatMib(total),
                       watts > 0 ? fmt::format(", {:.0f} W", watts) : "",
                       server.simulated ? ", simulated GPUs" : "")}};
}

std::string GpuTaskNumbers(const GpuGlance& gpu) {
  std::string text;
  for (const api::GpuTaskView& task : gpu.tasks)
    text += (text.empty() ? "" : ",") + std::to_string(task.id);
  if (!gpu.foreign.empty())
    text += fmt::format("{}{} foreign", text.empty() ? "" : " + ", gpu.foreign.size());
  return text;
}

TopLine GpuLine(const GpuGlance& gpu, const TopSize& size) {
  const bool wide = size.columns >= kWideScreen;
  TopLine line{{fmt::format("{:>2} ", gpu.index)}};
  if (wide) line.push_back({Padded(base::Printable(gpu.name, 60), 24)});
  for (TopPiece& piece : MemoryBar(gpu.used_mib, gpu.promised_mib, gpu.total_mib, kBarWidth))
    line.push_back(std::move(piece));
  line.push_back({fmt::format(" {:>11}  ", fmt::format("{}/{}", base::FormatMib(gpu.used_mib),
                                                       base::FormatMib(gpu.total_mib)))});
  line.push_back({ActivityBars(gpu.recent, wide ? 30 : 12, size.blocks), TopStyle::kGood});
  line.push_back({gpu.sm_active ? fmt::format(" {:>3.0f}%", *gpu.sm_active * 100) : "    -"});
  line.push_back({gpu.power_w ? fmt::format(" {:>4.0f}W", *gpu.power_w) : "      "});
  line.push_back({gpu.temperature_c ? fmt::format(" {:>2.0f}C  ", *gpu.temperature_c) : "      "});
  if (const std::string reserved = ReservedText(gpu.reserved); !reserved.empty())
    line.push_back({reserved + "  ", TopStyle::kFaint});
  if (!gpu.trouble.empty() || gpu.state == "down")
    line.push_back({base::Printable(gpu.state + ": " + gpu.trouble, 200), TopStyle::kBad});
  else
    line.push_back({GpuTaskNumbers(gpu)});
  return line;
}

// The widths of the task columns.
struct Widths {
  std::size_t name = 16, user = 8, gpu = 4;
};

TopLine TaskTitles(const Widths& widths, const TopState& state) {
  return {{Padded("ID", 6, true) + Padded("NAME", widths.name) + Padded("USER", widths.user) +
               Padded("ST", 2) + Padded("RUN/WAIT", 10, true) + Padded("GPU", widths.gpu) +
               Padded("MEM", 11, true) +
               (state.sort == TopSort::kQueue ? "" : fmt::format("by {}", SortName(state.sort))),
           TopStyle::kTitle}};
}

TopLine TaskLine(const TaskView& task, const TopData& data, const Widths& widths, bool selected) {
  const std::string code = StateCode(task);
  const std::string front = Padded(std::to_string(task.id), 6, true) +
                            Padded(TaskName(task), widths.name) +
                            Padded(base::Printable(task.user), widths.user);
  const std::int64_t now_ms = data.server.now_ms;
  const std::string time = Waits(task) ? WaitText(task, now_ms) : TimeText(task, now_ms);
  const std::string back = Padded(time, 10, true) + Padded(GpuText(task), widths.gpu) +
                           Padded(TaskMemory(task), 11, true) + NoteText(task, data);
  if (selected) return {{front + Padded(code, 2) + back, TopStyle::kSelected}};
  return {{front}, {Padded(code, 2), static_cast<TopStyle>(StateColour(task))}, {back}};
}

// Cuts the line to the screen's width, and extends a selected line to the edge.
TopLine Fitted(const TopLine& line, int columns) {
  TopLine fitted;
  auto left = static_cast<std::size_t>(std::max(columns, 0));
  for (const TopPiece& piece : line) {
    if (left == 0) break;
    fitted.push_back({CutTo(piece.text, left), piece.style});
    left -= ShownWidth(fitted.back().text);
  }
  if (!fitted.empty() && fitted.back().style == TopStyle::kSelected)
    fitted.back().text += std::string(left, ' ');
  return fitted;
}

// Removes escape sequences for colours and cursor moves from the text: ESC [ … letter.
std::string WithoutEscapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) != "\x1b[") {
      plain += text[i];
      continue;
    }
    i += 2;
    while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
  }
  return plain;
}

// Splits text into lines, wrapping long ones.
std::vector<std::string> Wrapped(const std::string& text, int columns) {
  std::vector<std::string> lines;
  for (const std::string_view raw : base::Split(text, '\n')) {
    const std::string wrapped =
        WrapTo(base::Printable(raw, 4000), {.width = std::max(columns, 1)}, 0);
    for (const std::string_view line : base::Split(wrapped, '\n')) lines.emplace_back(line);
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

constexpr std::string_view kHelp =
    "Up, Down, PgUp, PgDn, Home, End   choose a task\n"
    "Enter   its details               e   why it is waiting, or why it runs there\n"
    "l       the end of its output     c   cancel it (asks first)\n"
    "h       hold it, or release it\n"
    "\n"
    "s       sort: queue, user, memory, time\n"
    "/       show only tasks with this text in their name, user, state or reason\n"
    "u       show only my tasks        a   also show ended tasks\n"
    "g       show or hide the GPUs\n"
    "q, Esc  back, or quit\n"
    "\n"
    "In a GPU's bar, | is memory in use and : is memory promised beyond that. Small bars show its\n"
    "SM activity over the last 15 minutes. RUN/WAIT: how long a task has run or waited. MEM: its\n"
    "used and promised memory, ~predicted while it is waiting, and the peak once it has ended.";

// How many GPUs to list so that there is still room for tasks. The first line of the screen always
// shows the totals of all GPUs.
std::size_t GpuRows(const TopData& data, const TopState& state, const TopSize& size) {
  if (!state.gpus) return 0;
  return std::min(data.server.gpus.size(),
                  static_cast<std::size_t>(std::max(1, size.rows / 2 - 2)));
}

std::size_t TroubleRows(const TopData& data) {
  return !data.trouble.empty() || !data.server.troubles.empty() ? 1 : 0;
}

// Returns the first row to show. Scrolls only as far as needed to make the selected row visible.
std::size_t FirstRow(std::size_t first, std::size_t chosen, std::size_t count, std::size_t rows) {
  if (chosen < first) first = chosen;
  if (rows > 0 && chosen >= first + rows) first = chosen - rows + 1;
  return count > rows ? std::min(first, count - rows) : 0;
}

void DrawTasks(const TopData& data, TopState& state, const TopSize& size,
               std::vector<TopLine>& lines) {
  const std::size_t gpus = GpuRows(data, state, size);
  for (std::size_t i = 0; i < gpus; ++i) lines.push_back(GpuLine(data.server.gpus[i], size));
  Widths widths;
  if (size.columns >= kWideScreen) widths = {28, 14, 8};
  lines.push_back(TaskTitles(widths, state));
  const std::vector<const TaskView*> tasks = ShownTasks(data, state);
  const std::size_t chosen = SelectedRow(tasks, state);
  const std::size_t rows = BodyRows(data, state, size);
  state.selected = tasks.empty() ? 0 : tasks[chosen]->id;
  state.first_row = FirstRow(state.first_row, chosen, tasks.size(), rows);
  for (std::size_t i = state.first_row; i < std::min(tasks.size(), state.first_row + rows); ++i)
    lines.push_back(TaskLine(*tasks[i], data, widths, i == chosen));
  if (tasks.empty() && rows > 0)
    lines.push_back({{data.tasks.empty() ? "  no tasks" : "  no task matches", TopStyle::kFaint}});
}

std::string PageTitle(const TopState& state) {
  switch (state.page) {
    case TopPage::kFacts:
      return fmt::format("Task {}", state.selected);
    case TopPage::kExplanation:
      return fmt::format("Why task {} is waiting, or why it runs where it does", state.selected);
    case TopPage::kOutput:
      return fmt::format("End of task {}'s output", state.selected);
    default:
      return "Keys";
  }
}

void DrawPage(const TopData& data, TopState& state, const TopSize& size,
              std::vector<TopLine>& lines) {
  lines.push_back({{PageTitle(state), TopStyle::kTitle}});
  const std::vector<std::string> text =
      Wrapped(state.page == TopPage::kHelp ? std::string(kHelp) : data.page, size.columns);
  const std::size_t rows = BodyRows(data, state, size);
  const std::size_t last = text.size() > rows ? text.size() - rows : 0;
  state.first_row = std::min(state.first_row, last);
  for (std::size_t i = state.first_row; i < std::min(text.size(), state.first_row + rows); ++i)
    lines.push_back({{text[i]}});
}

TopLine FootLine(const TopState& state) {
  if (state.typing) return {{"Only tasks with: " + state.filter + "_", TopStyle::kSelected}};
  if (state.cancels != 0)
    return {{fmt::format("End task {}? y or n", state.cancels), TopStyle::kSelected}};
  if (!state.message.empty()) return {{state.message, TopStyle::kWaiting}};
  std::string chosen;
  if (!state.filter.empty()) chosen += fmt::format("only '{}'  ", state.filter);
  if (state.mine) chosen += "only mine  ";
  return {{chosen, TopStyle::kWaiting},
          {std::string(state.page == TopPage::kTasks ? kKeys : "q back"), TopStyle::kFaint}};
}

}  // namespace

bool Waits(const TaskView& task) {
  return !HoldsGpus(task) && !HasEnded(task);
}

std::size_t BodyRows(const TopData& data, const TopState& state, const TopSize& size) {
  const bool tasks = state.page == TopPage::kTasks;
  const std::size_t others =
      1 + TroubleRows(data) + (tasks ? GpuRows(data, state, size) + 1 : 1) + 1;
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 0));
  return rows > others ? rows - others : 0;
}

std::size_t SelectedRow(const std::vector<const TaskView*>& tasks, const TopState& state) {
  const auto found =
      std::ranges::find_if(tasks, [&](const TaskView* task) { return task->id == state.selected; });
  return found == tasks.end() ? 0 : static_cast<std::size_t>(found - tasks.begin());
}

std::vector<const TaskView*> ShownTasks(const TopData& data, const TopState& state) {
  std::vector<const TaskView*> tasks;
  for (const TaskView& task : data.tasks) {
    if (Passes(task, state)) tasks.push_back(&task);
  }
  const auto order = [&](auto before) { std::ranges::stable_sort(tasks, before); };
  const std::int64_t now_ms = data.server.now_ms;
  const auto since = [now_ms](const TaskView& task) {
    return Waits(task) ? task.waiting_since_ms.value_or(now_ms) : task.launched_ms.value_or(now_ms);
  };
  switch (state.sort) {
    case TopSort::kQueue:
      break;  // rows are already in queue order
    case TopSort::kUser:
      order([](const TaskView* a, const TaskView* b) { return a->user < b->user; });
      break;
    case TopSort::kMemory:
      order([](const TaskView* a, const TaskView* b) { return MemoryOf(*a) > MemoryOf(*b); });
      break;
    case TopSort::kTime:
      order([&](const TaskView* a, const TaskView* b) { return since(*a) < since(*b); });
      break;
  }
  return tasks;
}

std::vector<TopLine> DrawTop(const TopData& data, TopState& state, const TopSize& size) {
  std::vector<TopLine> lines{HeadLine(data)};
  if (TroubleRows(data) != 0) {
    const std::string& trouble = data.trouble.empty() ? data.server.troubles.front() : data.trouble;
    lines.push_back({{base::Printable(trouble, 400), TopStyle::kBad}});
  }
  if (state.page == TopPage::kTasks)
    DrawTasks(data, state, size, lines);
  else
    DrawPage(data, state, size, lines);
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 1));
  lines.resize(std::max<std::size_t>(rows, 1) - 1);
  lines.push_back(FootLine(state));
  for (TopLine& line : lines) line = Fitted(line, size.columns);
  return lines;
}

std::vector<TopPiece> MemoryBar(std::int64_t used, std::int64_t promised, std::int64_t total,
                                int width) {
  const MemoryBarParts parts = PartsOfMemory(used, promised, total, width);
  return {{"["},
          {std::string(parts.used, '|'), TopStyle::kGood},
          {std::string(parts.promised, ':'), TopStyle::kWaiting},
          {std::string(parts.free, ' ')},
          {"]"}};
}

std::string ActivityBars(const std::vector<std::int64_t>& percent, int width, bool blocks) {
  const auto wanted = static_cast<std::size_t>(std::max(width, 0));
  const std::size_t shown = std::min(wanted, percent.size());
  std::string bars(wanted - shown, ' ');
  for (std::size_t i = percent.size() - shown; i < percent.size(); ++i) {
    const double share = static_cast<double>(percent[i]) / 100;
    bars += SmallBar(percent[i] < 0 ? std::nullopt : std::optional(share), blocks);
  }
  return bars;
}

std::string LastOutputLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const std::size_t end = text.find_last_of("\r\n");
  const std::string line =
      WithoutEscapes(end == std::string_view::npos ? text : text.substr(end + 1));
  return base::Printable(base::Trim(line), 400);
}

}  // namespace carma::cli
