// `carma top`: shows the server on one screen until the user quits.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/output_reader.h"
#include "cli/client/task_text.h"
#include "cli/client/verbs.h"
#include "cli/top/curses.h"
#include "cli/top/frame.h"

namespace carma::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMostTasks = 500;
constexpr std::int64_t kOutputLines = 500;

// The last lines of a task's output, read with the caller's own permissions. Empty if the caller
// may not read them.
std::string EndOfOutput(const api::TaskView& task, std::int64_t lines) {
  constexpr std::int64_t kMostOfLine = 4096;  // a progress bar that redraws itself is one long line
  OutputReader reader(task.stdout_path);
  if (!reader.Open() || !reader.SkipToLast(lines, lines * kMostOfLine)) return "";
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* memory = ::open_memstream(&text, &size);
  if (memory == nullptr) return "";
  (void)reader.CopyNew(memory);
  std::fclose(memory);
  const std::string copy(text, size);
  std::free(text);
  return copy;
}

class Top {
 public:
  Top(Context& context, double interval_s)
      : context_(context),
        interval_(std::chrono::milliseconds(static_cast<std::int64_t>(interval_s * 1000))) {
    state_.user = OwnUserName();
  }

  Result<Unit> Run() {
    // Fetches data before the screen is opened, so that an error is shown as a plain message.
    CARMA_TRY(GetOverview(context_.client()));
    CursesScreen screen;
    if (!screen)
      return Unavailable(
          "top: this machine does not know the terminal '{}'; try TERM=xterm carma top",
          base::Printable(base::GetEnv("TERM"), 40));
    while (!left_ && !screen.gone()) {
      if (SteadyClock::now() >= next_) Refresh();
      screen.Show(DrawTop(data_, state_, screen.size()));
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_ - SteadyClock::now());
      const auto stroke = screen.Await(std::max(left, std::chrono::milliseconds(1)));
      if (stroke) Do(TakeStroke(*stroke, data_, screen.size(), state_));
    }
    return Unit{};
  }

 private:
  void Refresh() {
    next_ = SteadyClock::now() + interval_;
    auto server = GetOverview(context_.client());
    auto page = state_.ended
                    ? ListTasks(context_.client(),
                                {.states = "all", .limit = kMostTasks, .newest_first = true})
                    : FetchQueue(context_.client(), {.limit = kMostTasks});
    // If a call fails, the last known state stays on the screen.
    data_.trouble = !server ? server.error().message : !page ? page.error().message : "";
    if (server) data_.server = std::move(server->value);
    if (page) data_.tasks = std::move(page->tasks);
    if (page && page->more)
      data_.trouble = "only the first " + std::to_string(kMostTasks) + " tasks are shown";
    ReadOutputs();
    ReadPage();
  }

  void ReadOutputs() {
    data_.output.clear();
    for (const api::TaskView& task : data_.tasks) {
      if (task.state == "running") data_.output[task.id] = LastOutputLine(EndOfOutput(task, 1));
    }
  }

  void ReadPage() {
    data_.page.clear();
    if (state_.page == TopPage::kTasks || state_.page == TopPage::kHelp) return;
    if (state_.page == TopPage::kExplanation) {
      const auto explain = ExplainTask(context_.client(), state_.selected);
      data_.page = explain ? Explanation(explain->value) : explain.error().message;
      return;
    }
    const auto task = GetTask(context_.client(), state_.selected);
    if (!task) {
      data_.page = task.error().message;
    } else if (state_.page == TopPage::kFacts) {
      data_.page = TaskFacts(task->value, data_.server.now_ms);
    } else {
      const std::string text = EndOfOutput(task->value, kOutputLines);
      data_.page = text.empty() ? "No output in " + task->value.stdout_path : text;
    }
  }

  void Do(const TopWish& wish) {
    switch (wish.kind) {
      case TopWish::Kind::kNothing:
        return;
      case TopWish::Kind::kQuit:
        left_ = true;
        return;
      case TopWish::Kind::kRefresh:
        break;
      case TopWish::Kind::kCancel:
        Change(wish.task, "cancel");
        break;
      case TopWish::Kind::kHold:
        Change(wish.task, "hold");
        break;
      case TopWish::Kind::kRelease:
        Change(wish.task, "release");
        break;
    }
    next_ = {};
  }

  void Change(std::uint64_t task, const std::string& verb) {
    const auto changed = ChangeTask(context_.client(), task, verb);
    if (!changed) state_.message = base::Printable(changed.error().message, 300);
  }

  Context& context_;
  const std::chrono::milliseconds interval_;
  TopData data_;
  TopState state_;
  SteadyClock::time_point next_{};
  bool left_ = false;
};

Result<Unit> RunTop(Context& context, double interval_s) {
  if (context.json) {
    Print(context, CARMA_TRY(GetOverview(context.client())).text + "\n");
    return Unit{};
  }
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return Invalid("top: expected a terminal (carma list and carma gpus work without one)");
  return Top(context, interval_s).Run();
}

}  // namespace

void AddTopCommand(Syntax app, Context& context) {
  auto interval_s = std::make_shared<double>(1);
  const Syntax verb = app.AddVerb(
      "top", "Watch the server on one screen: GPUs and tasks, with keys to act on them");
  verb.Footer(
      "Shows each GPU's used and promised memory and its SM activity over the last 15 minutes,\n"
      "and each task's last output or why it is waiting. '?' shows the keys, 'q' quits.\n"
      "  carma top --interval 5\n"
      "With --json: prints the server's state once.\n");
  verb.AddOption("--interval", "S", *interval_s, "seconds between updates (default: 1)")
      .Range(0.1, 3600.0);
  verb.OnRun([&context, interval_s] { context.Report(RunTop(context, *interval_s)); });
}

}  // namespace carma::cli
