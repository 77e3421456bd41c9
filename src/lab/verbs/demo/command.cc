// demo: runs the same tasks on two simulated servers and shows both on one screen. The first server
// runs one task per GPU, and the second uses CARMA's defaults.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/verbs.h"
#include "cli/top/curses.h"
#include "lab/verbs/demo/screen.h"
#include "lab/verbs/demo/server.h"
#include "lab/verbs/lab.h"
#include "lab/verbs/noted_signals.h"
#include "report/html.h"
#include "report/result.h"

namespace carma::cli {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::int64_t kTasks = 60;  // number of tasks in the trace demo60
constexpr double kSpeed = 480;       // one task per GPU takes about 12.5 simulated hours
constexpr milliseconds kLook{500};
constexpr std::chrono::seconds kLineEvery{10};
constexpr std::size_t kMostNews = 100;
// The user of this task requests only half the memory it needs, as often happens. The shared GPU
// has less memory free than the task needs. No similar task has run before, so CARMA does not know
// the real requirement.
constexpr std::uint64_t kUnderstated = 14;
constexpr std::int64_t kStatedMib = 10 * 1024;

struct DemoFlags {
  std::string html;
  double speed = kSpeed;
};

class Demo {
 public:
  Demo(Context& context, const DemoFlags& flags) : context_(context), flags_(flags) {
    data_.sides = {{"One task per GPU", {}, 0}, {"CARMA", {}, 0}};
    data_.tasks = kTasks;
    data_.speed = flags.speed;
  }
  ~Demo() {
    servers_.clear();  // they must exit before their folder is removed
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(folder_, ignored);
  }
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  void Run() {
    made_ = ::mkdtemp(folder_.data()) != nullptr;
    if (!made_) return context_.Fail(FailErrno(errno, "/tmp").error());
    if (const Result<Unit> started = Start(); !started) return context_.Fail(started.error());
    if (const Result<Unit> watched = Watch(); !watched) return context_.Fail(watched.error());
    if (interrupted || left_) {
      std::fprintf(context_.err, "carma: the demo stopped before all tasks had ended\n");
      context_.exit_code = kExitFailure;
      return;
    }
    if (const Result<Unit> told = Tell(); !told) return context_.Fail(told.error());
  }

 private:
  Result<Unit> Start() {
    if (!context_.json)
      Print(context_, "Starting two simulated servers, each with 4 A100 GPUs (40 GB) …\n");
    for (const auto& [name, configuration] :
         {std::pair("/a", "method = \"exclusive\"\n"), std::pair("/b", "")}) {
      servers_.push_back(CARMA_TRY(DemoServer::Start(folder_ + name, flags_.speed, configuration)));
    }
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const auto status = CARMA_TRY(GetStatus(servers_[i]->client()));
      data_.sides[i].began_ms = status.value.now_ms;
      CARMA_TRY(servers_[i]->Replay({"--estimate", "gpumemnet", "--memory",
                                     fmt::format("{}={}M", kUnderstated, kStatedMib)}));
    }
    return Unit{};
  }

  // Runs until all tasks have ended or the user quits.
  Result<Unit> Watch() {
    std::optional<CursesScreen> screen;
    if (!context_.json && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1)
      screen.emplace();
    const NotedSignals signals;  // created after ncurses, which sets its own handlers
    auto next_line = SteadyClock::now() + kLineEvery;
    while (!interrupted && !left_) {
      bool replays = false;
      for (std::size_t i = 0; i < servers_.size(); ++i) {
        const bool goes_on = CARMA_TRY(servers_[i]->Replays());
        replays = replays || goes_on;
        CARMA_TRY(Look(i, goes_on));
      }
      if (!replays) return Unit{};
      if (screen) {
        screen->Show(DrawDemo(data_, screen->size()));
        const auto stroke = screen->Await(kLook);
        left_ = stroke && stroke->key == TopKey::kCharacter && stroke->character == 'q';
        continue;
      }
      if (!context_.json && SteadyClock::now() >= next_line) {
        next_line += kLineEvery;
        Print(context_, DemoLine(data_) + "\n");
        std::fflush(context_.out);
      }
      std::this_thread::sleep_for(kLook);
    }
    return Unit{};
  }

  // On the screen, each server's clock stops when the server's last task has ended.
  Result<Unit> Look(std::size_t which, bool goes_on) {
    DemoSide& side = data_.sides[which];
    if (!goes_on && DemoDone(side.server) == kTasks) return Unit{};
    auto server = CARMA_TRY(GetOverview(servers_[which]->client()));
    side.server = std::move(server.value);
    if (which != 1) return Unit{};
    for (std::string& sentence : news_.Look(side.server, side.began_ms)) {
      if (!context_.json && ::isatty(STDOUT_FILENO) != 1) Print(context_, sentence + "\n");
      data_.news.push_back(std::move(sentence));
      if (data_.news.size() > kMostNews) data_.news.pop_front();
    }
    return Unit{};
  }

  Result<Unit> Tell() {
    std::vector<report::Report> reports;
    std::vector<report::Metrics> metrics;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      report::Report made = CARMA_TRY(servers_[i]->Report(i == 0 ? "exclusive" : "carma"));
      metrics.push_back(made.metrics);
      reports.push_back(std::move(made));
    }
    if (!flags_.html.empty()) {
      CARMA_TRY(base::WriteFileAtomic(
          flags_.html, report::Html(reports, "CARMA demo, simulated", std::nullopt)));
    }
    if (context_.json) {
      Print(context_, fmt::format("[{},{}]\n", report::ToJsonText(metrics[0]),
                                  report::ToJsonText(metrics[1])));
      return Unit{};
    }
    const Screen screen = ScreenOf(context_.out);
    Print(context_, "\n" + WrapTo(base::Printable(report::ResultSentence(metrics), 1000), screen) +
                        "\n\n" + DemoChart(metrics[0], metrics[1], screen) + "\n");
    Print(context_, WrapTo(CrashSentence(), screen) + Next());
    return Unit{};
  }

  // Describes what happened to the task that requested too little memory.
  std::string CrashSentence() {
    const auto task = GetTask(servers_[1]->client(), kUnderstated);
    if (!task || task->value.ooms == 0) return "";
    return fmt::format("Task {} ({}) requested {} but needs {}. ", kUnderstated,
                       base::Printable(task->value.name, 60), base::FormatMib(kStatedMib),
                       base::FormatMib(task->value.peak_mib)) +
           fmt::format(
               "It ran out of GPU memory {}, was requeued with a larger memory promise and {}.\n",
               task->value.ooms == 1 ? "once" : base::Counted(task->value.ooms, "time"),
               task->value.state);
  }

  std::string Next() const {
    std::string text =
        "The daemons, processes, crash and recovery were real; the GPUs and the training were "
        "simulated\n(memory, durations and slowdowns follow published measurements).\n";
    if (!flags_.html.empty())
      text += "Report with figures: " + std::filesystem::absolute(flags_.html).string() + "\n";
    text += "\nType next:\n";
    const std::string folder = base::ExecutableDir();
    if (!(":" + base::GetEnv("PATH") + ":").contains(":" + folder + ":"))
      text += fmt::format("  export PATH={}:$PATH\n", folder);
    return text +
           "  carmad --background --simulate 4xA100-40GB   # a CARMA of your own, on simulated "
           "GPUs\n"
           "  carma submit --gpu-mem 12G -- carma-simtask --memory-mib 11000 --solo-s 60\n"
           "  carma top\n"
           "On a server with GPUs: carma doctor; carmad --background; carma submit "
           "YOUR_SCRIPT.sh\n";
  }

  Context& context_;
  const DemoFlags& flags_;
  // Always in /tmp, not in $TMPDIR, because socket paths must be short.
  std::string folder_ = "/tmp/carma-demo.XXXXXX";
  bool made_ = false;
  std::vector<std::unique_ptr<DemoServer>> servers_;
  DemoData data_;
  DemoNews news_;
  bool left_ = false;
};

}  // namespace

void AddDemoCommand(Syntax app, Context& context) {
  auto flags = std::make_shared<DemoFlags>();
  const Syntax verb =
      app.AddVerb("demo", "See CARMA at work on simulated GPUs: 60 tasks in under two minutes");
  verb.Footer(
      "Two simulated servers with 4 GPUs run the same 60 training tasks: one with a single task\n"
      "per GPU, the other with CARMA's defaults. One task requests half the memory it needs,\n"
      "crashes and is retried. Needs no GPU, root access or compiler, and leaves no files behind.\n"
      "  carma demo --html demo.html\n"
      "With --json, it prints the metrics of both runs.\n");
  verb.AddOption("--html", "FILE", flags->html,
                 "write tables and figures of both runs as one HTML file");
  verb.AddOption("--speed", "N", flags->speed,
                 fmt::format("simulated seconds per second (default: {:.0f})", kSpeed))
      .Range(1.0, 10000.0);
  verb.OnRun([&context, flags] { Demo(context, *flags).Run(); });
}

}  // namespace carma::cli
