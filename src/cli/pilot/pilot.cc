#include "cli/pilot/pilot.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <utility>

#include "api/other_daemon.h"
#include "api/reservation_view.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/gpu_text.h"
#include "cli/client/verbs.h"
#include "cli/pilot/allocation.h"
#include "cli/pilot/books.h"
#include "cli/pilot/carmad.h"
#include "cli/run/relay.h"
#include "config/client_socket.h"
#include "core/values/reason.h"
#include "core/values/reservation.h"
#include "core/values/task_request.h"
#include "task/describe/option_values.h"
#include "task/shim/environment.h"

namespace carma::cli {
namespace {

using base::Duration;
using base::Json;
using base::Time;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Marks drains and reservations as made by a pilot, so that the next pilot can remove them.
constexpr char kEndOfAllocation[] = "the allocation ends";

constexpr milliseconds kLook{250};
constexpr seconds kLongestStart{120};
constexpr seconds kDriverPatience{15};  // counted from carmad's start
constexpr seconds kLongestStop{30};
constexpr milliseconds kWaitForChild{20};
// When a cluster ends a job, it gives the job about 30 s to stop (KillWait).
constexpr Duration kLeaveSoon{15'000};
constexpr Duration kTold{1'000};
// Time kept in reserve at the end of the allocation, after the last task has been killed.
constexpr Duration kSpare{5'000};
// The notice is at most a quarter of the allocation; otherwise, no task could start in a short one.
constexpr int kNoticeShare = 4;
constexpr int kMostRestarts = 5;
// A pilot exits after this many consecutive checks in which nothing was running and nothing could
// start.
constexpr int kStuckLooks = 4;
constexpr Duration kReserved = std::chrono::hours(24);

Time SystemTime() {
  return base::SystemClock().Now();
}

std::int64_t UnfinishedTasks(const api::StatusView& status) {
  return RunningTasks(status) + CountOf(status, {"submitted", "estimating", "queued"});
}

// True if the task is waiting for a reason that will last until the allocation ends. Valid only
// while nothing is running.
bool WaitsInVain(const api::TaskView& task, const std::optional<Time>& ends) {
  if (ends && task.begin_ms && base::FromMs(*task.begin_ms) >= *ends) return true;
  constexpr std::array kInVain = {core::ReasonCode::kHeld,       core::ReasonCode::kNeverFits,
                                  core::ReasonCode::kDependency, core::ReasonCode::kGpuChoice,
                                  core::ReasonCode::kReserved,   core::ReasonCode::kMigInstance};
  return std::ranges::any_of(
      kInVain, [&](core::ReasonCode code) { return task.reason == base::WordOf(code); });
}

class Pilot {
 public:
  Pilot(Context& context, const PilotFlags& flags) : context_(context), flags_(flags) {}

  // Starts the daemon. Returns an error if the pilot cannot serve.
  Result<Unit> Open() {
    const config::Environment environment = base::OwnEnvironment();
    allocation_ = CARMA_TRY(ReadAllocation(environment, !flags_.gpus.empty()));
    CARMA_TRY(ReadFlags());
    const config::Loaded configured =
        CARMA_TRY(config::Load(config::StandardSources(std::nullopt, ::geteuid() == 0)));
    // A job has its own GPUs. Outside a job, the GPUs belong to root's carmad if it is running.
    if (allocation_.job.empty() && !flags_.beside && ::geteuid() != 0 &&
        configured.settings.simgpu_state.empty()) {
      CARMA_TRY(api::CheckNoOtherDaemon(config::kServerSocket, "--beside"));
    }
    CARMA_TRY(PlanEnd(configured.settings));
    place_ = CARMA_TRY(MakePlace(environment, allocation_.job, flags_.name));
    books_ = CARMA_TRY(PilotBooks::Take(BooksFolder(), Description()));
    variables_ = DaemonVariables(allocation_, place_, configured, notice_, OwnCpus());
    context_.socket_path = place_.socket;
    // Makes orphaned processes children of the pilot, so that the cluster does not lose track of
    // them.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    return StartDaemon();
  }

  // Serves until the pilot ends, then sets the exit code.
  void Serve() {
    TellReady();
    if (!context_.words.empty() && !(flags_.once && books_->Begun())) StartCommand();
    while (!over_) {
      TakeSignal(signals_.Wait(kLook));
      if (!over_) Look();
    }
    Finish();
  }

 private:
  template <class... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    std::fprintf(context_.err, "carma pilot: %s\n",
                 fmt::format(format, std::forward<Args>(args)...).c_str());
    std::fflush(context_.err);
  }

  // ---- the allocation ----

  Result<Unit> ReadFlags() {
    if (flags_.name.empty() || flags_.name.size() > 32 || !core::IsShareName(flags_.name) ||
        flags_.name.starts_with('.')) {
      return Invalid(
          "--name: expected 1 to 32 letters, digits or any of '_', '-', '+', '.', not beginning "
          "with '.'");
    }
    if (flags_.once && context_.words.empty()) return Invalid("--once: expected a command");
    if (!flags_.gpus.empty()) {
      allocation_.gpus.emplace();
      for (const std::string_view each : base::Split(flags_.gpus, ','))
        allocation_.gpus->emplace_back(base::Trim(each));
    }
    if (flags_.length) {
      allocation_.ends = SystemTime() + *flags_.length;
    } else if (!flags_.until.empty()) {
      allocation_.ends =
          CARMA_TRY(base::Wrap(task::ParseBegin(flags_.until, SystemTime()), "--until"));
    } else if (!allocation_.ends && !allocation_.job.empty()) {
      allocation_.ends = AskJobEnd(allocation_.job);
    }
    return Unit{};
  }

  Result<Unit> PlanEnd(const config::Settings& settings) {
    grace_ = settings.kill_grace;
    notice_ = flags_.notice.value_or(settings.policy.slots.notice);
    if (!allocation_.ends) return Unit{};
    const Duration left = *allocation_.ends - SystemTime();
    if (left <= Duration{0})
      return Invalid("the end time {} is in the past", base::FormatTime(*allocation_.ends));
    if (!flags_.notice) notice_ = std::min(notice_, left / kNoticeShare);
    empty_by_ = *allocation_.ends - std::min(grace_ + kSpare, left / kNoticeShare);
    return Unit{};
  }

  std::string BooksFolder() const {
    const std::string state =
        base::GetEnv("XDG_STATE_HOME", base::GetEnv("HOME") + "/.local/state");
    const std::string all = flags_.books.empty() ? state + "/carma/pilot" : flags_.books;
    return std::filesystem::absolute(all + "/" + flags_.name).lexically_normal().string();
  }

  std::string Description() const {
    return fmt::format("{} on {}, process {}, since {}",
                       allocation_.job.empty() ? "a pilot" : "the pilot of job " + allocation_.job,
                       base::ShortHostName(), ::getpid(), base::FormatTime(SystemTime()));
  }

  // ---- the pilot's daemon ----

  Result<Unit> StartDaemon() {
    CARMA_TRY(carmad_.Start(place_, *books_, variables_));
    if (Result<Unit> serves = AwaitDaemon(); !serves) {
      StopDaemon();
      return serves;
    }
    return OpenGpus();
  }

  Result<Unit> AwaitDaemon() {
    const auto began = std::chrono::steady_clock::now();
    for (;;) {
      const Called<std::vector<api::GpuView>> gpus = ListGpus(context_.client());
      if (gpus) return Unit{};
      Reap();
      if (!carmad_.alive())
        return Unavailable("carmad exited: {} (its log is {}/carmad.log)", carmad_.end(),
                           books_->folder());
      const auto waited = std::chrono::steady_clock::now() - began;
      const Called<api::StatusView> status = GetStatus(context_.client());
      const bool no_driver = status && !status->value.starting;
      if (waited > (no_driver ? kDriverPatience : kLongestStart))
        return base::Wrap(gpus.error(), "carmad is not serving");
      if (const int number = signals_.Wait(kWaitForChild); number == SIGTERM || number == SIGINT)
        return Unavailable("stopped by signal {}", number);
    }
  }

  // Reopens GPUs that earlier pilots closed, unless this pilot is about to end as well.
  Result<Unit> OpenGpus() {
    const Answer<std::vector<api::GpuView>> gpus = CARMA_TRY(ListGpus(context_.client()));
    gpus_.clear();
    for (const api::GpuView& gpu : gpus.value) {
      gpus_.push_back(gpu.uuid);
      if (gpu.trouble.find(kEndOfAllocation) == std::string::npos) continue;
      CARMA_TRY(ChangeGpu(context_.client(), gpu.uuid, "resume", ""));
    }
    const Answer<api::StatusView> status = CARMA_TRY(GetStatus(context_.client()));
    for (const std::string& trouble : status.value.troubles) Say("warning: {}", trouble);
    time_scale_ = status.value.time_scale;
    if (!began_ms_) began_ms_ = status.value.now_ms;
    CARMA_TRY(RemoveReservations());
    return empty_by_ ? Reserve(OnItsClock(*empty_by_, status.value)) : Unit{};
  }

  Result<Unit> RemoveReservations() {
    const auto reservations = CARMA_TRY(ListReservations(context_.client()));
    for (const api::ReservationView& view : reservations.value) {
      if (view.why != kEndOfAllocation) continue;
      CARMA_TRY(context_.client().Call("POST", fmt::format("/v1/reservations/{}/remove", view.id)));
    }
    return Unit{};
  }

  // Reserves the GPUs for no one from this time on, so only tasks that end earlier can start.
  Result<Unit> Reserve(Time from) {
    core::Reservation booking;
    booking.from = from;
    booking.length = kReserved;
    booking.why = kEndOfAllocation;
    CARMA_TRY(cli::Reserve(context_.client(), booking));
    return Unit{};
  }

  // Converts a time to the daemon's clock, which differs from this machine's if the server is
  // simulated. The result is at most the latest time that the daemon accepts, because a job without
  // a time limit may end later.
  Time OnItsClock(Time when, const api::StatusView& status) const {
    const double ahead = static_cast<double>((when - SystemTime()).count()) * time_scale_;
    const double then = static_cast<double>(status.now_ms) + ahead;
    const double last = static_cast<double>(core::kMaxBeginMs - kReserved.count());
    return base::FromMs(static_cast<std::int64_t>(std::min(then, last)));
  }

  void StopDaemon() {
    const auto began = std::chrono::steady_clock::now();
    carmad_.Signal(SIGTERM);
    while (carmad_.alive()) {
      if (std::chrono::steady_clock::now() - began > kLongestStop) carmad_.Signal(SIGKILL);
      signals_.Wait(kWaitForChild);
      Reap();
    }
  }

  // ---- while the pilot serves ----

  void TellReady() {
    const std::string ends = allocation_.ends ? base::FormatTime(*allocation_.ends) : "";
    if (context_.json) {
      Json json = {{"name", flags_.name}, {"socket", place_.socket}, {"books", books_->folder()},
                   {"gpus", gpus_},       {"job", allocation_.job},  {"ends_ms", nullptr}};
      if (allocation_.ends) json["ends_ms"] = base::ToMs(*allocation_.ends);
      Print(context_, base::DumpJson(json) + "\n");
    } else {
      Print(context_, fmt::format("Pilot {} serves {} of {}{}\nCARMA_SOCKET={}\n", flags_.name,
                                  base::Counted(std::ssize(gpus_), "GPU"), base::ShortHostName(),
                                  ends.empty() ? "" : " until " + ends, place_.socket));
    }
    std::fflush(context_.out);
  }

  void StartCommand() {
    std::map<std::string, std::string> environment = base::OwnEnvironment();
    environment["CARMA_SOCKET"] = place_.socket;
    base::SpawnOptions options;
    options.files = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    options.environment = task::ToBlock(environment);
    auto started = base::Spawn(context_.words, options);
    if (!started) {
      context_.Fail(FailErrno(started.error(), context_.words[0]).error());
      over_ = true;
      return;
    }
    command_ = started->pid;
    GiveTerminal(command_);
  }

  // Makes the command the terminal's foreground process, because the kernel stops a background
  // program that reads from its terminal.
  static void GiveTerminal(pid_t group) {
    if (::isatty(STDIN_FILENO) == 0) return;
    sigset_t stops, before;
    ::sigemptyset(&stops);
    ::sigaddset(&stops, SIGTTOU);  // sent to a background process that changes the terminal
    ::pthread_sigmask(SIG_BLOCK, &stops, &before);
    (void)::tcsetpgrp(STDIN_FILENO, group);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void TakeSignal(int number) {
    Reap();
    switch (number) {
      case SIGHUP:
        return carmad_.Signal(SIGHUP);
      case SIGTERM:
      case SIGINT:
        return TakeTold();
      case SIGUSR1:
      case SIGUSR2:
        return Leave(empty_by_.value_or(SystemTime() + RealNotice()));
      default:
        return;
    }
  }

  // Handles a request to end the pilot. The first request gives tasks kLeaveSoon to checkpoint.
  // Another one means "now" if it comes at least kTold (1 s) later. Earlier repeats are ignored,
  // because several signals may arrive together at the end of a job.
  void TakeTold() {
    if (!told_to_end_) told_to_end_ = SystemTime();
    Leave(SystemTime() - *told_to_end_ < kTold ? *told_to_end_ + kLeaveSoon : SystemTime());
  }

  Duration RealNotice() const {
    return Duration(static_cast<std::int64_t>(static_cast<double>(notice_.count()) / time_scale_));
  }

  void Reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      carmad_.Reaped(pid, status);
      if (pid == command_) TakeCommandEnd(status);
    }
  }

  void TakeCommandEnd(int status) {
    command_ = 0;
    GiveTerminal(::getpgrp());
    command_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (command_code_ != 0)
      return Say("{} ended with code {}", base::Printable(context_.words[0], 100), command_code_);
    if (!flags_.once) return;
    if (const Result<Unit> noted = books_->NoteBegun(); !noted)
      Say("{}: the next pilot will run the command again", noted.error().message);
  }

  bool EndsWhenEmpty() const { return flags_.until_empty || !context_.words.empty(); }

  void Look() {
    if (!carmad_.alive()) return TakeDaemonEnd();
    const Called<api::StatusView> status = GetStatus(context_.client());
    if (!status) return;  // carmad has just exited, or is busy; the next check repeats the request
    const Time now = SystemTime();
    if (leave_by_) {
      over_ = RunningTasks(status->value) == 0 || now > *leave_by_ + grace_ + kSpare;
      return;
    }
    if (empty_by_ && now >= *empty_by_ - RealNotice()) return Leave(*empty_by_);
    if (EndsWhenEmpty() && command_ == 0) over_ = NothingToDo(status->value);
  }

  bool NothingToDo(const api::StatusView& status) {
    if (UnfinishedTasks(status) == 0) return true;
    if (RunningTasks(status) > 0 || CountOf(status, {"submitted", "estimating"}) > 0) {
      stuck_ = 0;
      return false;
    }
    const Result<TaskPage> waiting = ListTasks(context_.client(), {.limit = SIZE_MAX});
    const bool in_vain =
        waiting && std::ranges::all_of(waiting->tasks, [this](const api::TaskView& task) {
          return WaitsInVain(task, allocation_.ends);
        });
    stuck_ = in_vain ? stuck_ + 1 : 0;
    return stuck_ >= kStuckLooks;
  }

  // Asks running tasks to checkpoint and to exit by this time. From now on, no tasks start.
  void Leave(Time by) {
    if (leave_by_ && *leave_by_ <= by) return;
    leave_by_ = by;
    const Called<api::StatusView> status = GetStatus(context_.client());
    if (!status) return;
    if (RunningTasks(status->value) > 0)
      Say("the pilot will exit soon: tasks must checkpoint and stop by {}", base::FormatTime(by));
    CloseGpus(context_.client(), gpus_, kEndOfAllocation);
    for (const std::string& gpu : gpus_) {
      // The daemon rejects deadlines in the past, so use the current time instead.
      const Time then = std::max(OnItsClock(by, status->value), base::FromMs(status->value.now_ms));
      const auto drained = ChangeGpu(context_.client(), gpu, "drain", kEndOfAllocation, then);
      if (!drained) Say("{}", drained.error().message);
    }
  }

  // Restarts a daemon that has exited, unless the pilot is about to end or the daemon has exited
  // too often. Tasks keep running in the meantime.
  void TakeDaemonEnd() {
    if (leave_by_ || restarts_++ == kMostRestarts) {
      if (!leave_by_) context_.Fail({ErrorCode::kUnavailable, "carmad exited repeatedly"});
      over_ = true;
      return;
    }
    // If a signal at the end of the job made the daemon exit, this process receives that signal
    // too, perhaps slightly later.
    TakeSignal(signals_.Wait(kLook));
    if (leave_by_) return;
    Say("carmad exited: {}; restarting it", carmad_.end());
    if (const Result<Unit> started = StartDaemon(); !started) {
      context_.Fail(started.error());
      over_ = true;
    }
  }

  // ---- the end ----

  void Finish() {
    if (command_ > 0) ::kill(command_, SIGTERM);
    const int tasks_code = carmad_.alive() ? CodeOfTasks() : kExitTasksWait;
    StopDaemon();
    if (told_to_end_) AwaitTasks();
    (void)::rmdir((place_.socket + ".ends").c_str());
    (void)::rmdir(place_.folder.c_str());  // fails if other pilots of the job still use the folder
    if (context_.exit_code == 0)
      context_.exit_code = command_code_ != 0 ? command_code_ : tasks_code;
  }

  // If a signal has killed the daemon, the same signal may still be stopping its tasks.
  void AwaitTasks() {
    const auto limit = std::chrono::steady_clock::now() + grace_;
    while (::waitpid(-1, nullptr, WNOHANG) >= 0 && std::chrono::steady_clock::now() < limit)
      signals_.Wait(kWaitForChild);
  }

  int CodeOfTasks() {
    const Called<api::StatusView> status = GetStatus(context_.client());
    const Result<TaskPage> ended =
        ListTasks(context_.client(), {.states = "failed,timed_out,out_of_memory,lost,rejected",
                                      .limit = SIZE_MAX,
                                      .newest_first = true});
    if (!status || !ended) return kExitTasksWait;
    const std::int64_t waiting = UnfinishedTasks(status->value);
    const std::int64_t failed = std::ranges::count_if(ended->tasks, [&](const api::TaskView& task) {
      return task.ended_ms && *task.ended_ms >= began_ms_.value_or(0);
    });
    if (failed > 0) Say("{} failed", base::Counted(failed, "task"));
    if (waiting > 0) {
      Say("{} for the next pilot named {}",
          base::Counted(waiting, "task") + (waiting == 1 ? " is waiting" : " are waiting"),
          flags_.name);
      return kExitTasksWait;
    }
    return failed > 0 ? kExitTasksFailed : 0;
  }

  Context& context_;
  const PilotFlags& flags_;
  CaughtSignals signals_{SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  Allocation allocation_;
  PilotPlace place_;
  std::optional<PilotBooks> books_;
  std::map<std::string, std::string> variables_;
  Carmad carmad_;
  std::vector<std::string> gpus_;         // UUIDs
  Duration notice_{}, grace_{};           // notice on the daemon's clock
  double time_scale_ = 1;                 // speed of the daemon's clock
  std::optional<std::int64_t> began_ms_;  // on the daemon's clock
  std::optional<Time> empty_by_;          // when the tasks must be gone, before the end
  std::optional<Time> leave_by_;          // deadline set for the tasks
  std::optional<Time> told_to_end_;       // when the first signal asked the pilot to end
  pid_t command_ = 0;
  int command_code_ = 0;
  int restarts_ = 0;
  int stuck_ = 0;
  bool over_ = false;
};

}  // namespace

void RunPilot(Context& context, const PilotFlags& flags) {
  Pilot pilot(context, flags);
  if (const Result<Unit> opened = pilot.Open(); !opened) return context.Fail(opened.error());
  pilot.Serve();
}

}  // namespace carma::cli
