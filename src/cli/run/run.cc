// `carma run`, `carma shell` and `carma ssh`: a task in the caller's terminal.
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/calls.h"
#include "cli/client/describe.h"
#include "cli/client/task_words.h"
#include "cli/client/verbs.h"
#include "cli/command.h"
#include "cli/run/relay.h"
#include "task/attach/attach_socket.h"

namespace carma::cli {
namespace {

using task::AttachMessage;
using SteadyClock = std::chrono::steady_clock;

// Shortest and longest pause between two checks of the task. The pause is short after the task's
// process has exited, and doubles with each check.
constexpr std::chrono::milliseconds kFirstLook{20};
constexpr std::chrono::milliseconds kLastLook{1000};
// How long to wait for the daemon to report the result of a task that has ended.
constexpr std::chrono::seconds kVerdictPatience{10};

struct RunFlags {
  SubmitFlags submit;
  std::optional<bool> terminal;  // give the task a terminal; if empty, only if the caller has one
  bool quiet = false;            // show only errors and the task's output
};

// True if the input is a pipe, socket or file rather than a terminal or /dev/null. It is passed on
// only once, so a restarted task would have nothing left to read.
bool ComesOnce(int fd) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && !S_ISCHR(st.st_mode);
}

class Runner {
 public:
  Runner(Context& context, const RunFlags& flags, task::AttachListener listener,
         const Streams& streams)
      : context_(context), flags_(flags), listener_(std::move(listener)), streams_(streams) {}

  // Runs until the task has ended for good, and sets the exit code.
  void Run(std::uint64_t id) {
    id_ = id;
    Tell("task {} has been submitted", id_);
    while (!over_) {
      pollfd fds[] = {{listener_.fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
      const int ready = ::poll(fds, std::size(fds), static_cast<int>(look_.count()));
      if (fds[0].revents != 0) {
        Serve();
      } else if (fds[1].revents != 0) {
        TakeSignal();
      } else if (ready == 0) {
        Look();
      }
    }
  }

 private:
  template <class... Args>
  void Tell(fmt::format_string<Args...> format, Args&&... args) {
    if (flags_.quiet) return;
    const std::string line = fmt::format(format, std::forward<Args>(args)...);
    if (std::exchange(told_, line) == line) return;
    std::fprintf(context_.err, "carma: %s\n", line.c_str());
  }

  void Serve() {
    std::optional<task::AttachSocket> shim = listener_.Accept();
    if (!shim) return;
    std::fflush(context_.err);
    const RelayEnd end = Relay(std::move(*shim), streams_, signals_);
    if (end.mid_line && streams_.terminal && !flags_.quiet) std::fputc('\n', context_.err);
    told_.clear();
    look_ = kFirstLook;
    ended_at_ = SteadyClock::now();
    exit_code_ = kExitFailure;
    if (end.last && end.last->kind == AttachMessage::Kind::kEnded)
      exit_code_ = end.last->signal != 0 ? 128 + end.last->signal : end.last->number;
    // The connection failed on this side, so this program exits. The task then gets SIGHUP, as if
    // its terminal had been closed.
    if (end.ours) {
      context_.Fail(*end.ours);
      Finish(exit_code_);
    }
  }

  // A task that waits in the queue has no process that could receive the signal, so the signal is
  // handled here.
  void TakeSignal() {
    const int number = signals_.Take(false);
    if (number == 0 || number == SIGWINCH) return;
    if (number == SIGTSTP) return Pause();
    const auto cancelled = ChangeTask(context_.client(), id_, "cancel");
    if (!cancelled && cancelled.error().code != ErrorCode::kConflict)
      context_.Fail(cancelled.error());
    else
      Tell("task {} is cancelled", id_);
    Finish(128 + number);
  }

  // Holds the task while this process is stopped, because the task cannot start unless this process
  // responds. A held task keeps its place in the queue.
  void Pause() {
    const Called<api::TaskView> before = GetTask(context_.client(), id_);
    if (before && before->value.reason == "Held") return CaughtSignals::Stop();
    const auto held = ChangeTask(context_.client(), id_, "hold");
    if (!held) return Tell("not suspended: {}", held.error().message);
    Tell("task {} is held until this command continues (fg or bg)", id_);
    const pid_t guard = StartGuard();
    CaughtSignals::Stop();
    if (guard > 0) {
      ::kill(guard, SIGKILL);
      ::waitpid(guard, nullptr, 0);
    }
    const auto released = ChangeTask(context_.client(), id_, "release");
    if (!released) Tell("{}", released.error().message);
  }

  // Starts a process that cancels the held task if this process is killed while stopped.
  pid_t StartGuard() {
    const pid_t own = ::getpid();
    const pid_t guard = ::fork();
    // The shell stops and kills the whole process group, so the guard must be in its own group
    // before this process stops. Both processes make this call, because either may run first.
    ::setpgid(guard, guard);
    if (guard != 0) return guard;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t death;
    ::sigemptyset(&death);
    ::sigaddset(&death, SIGTERM);  // blocked by signals_
    int number = 0;
    if (::getppid() == own) ::sigwait(&death, &number);
    api::Client client(context_.Socket());
    ::_exit(ChangeTask(client, id_, "cancel") ? 0 : 1);
  }

  void Look() {
    look_ = std::min(look_ * 2, kLastLook);
    const Called<api::TaskView> task = GetTask(context_.client(), id_);
    if (!task && task.error().code == ErrorCode::kUnavailable) return LookInVain(task.error());
    if (!task) {
      context_.Fail(task.error());
      over_ = true;
      return;
    }
    const api::TaskView& view = task->value;
    if (HasEnded(view)) return TakeVerdict(view);
    if (view.state == "queued" && !view.reason.empty())
      Tell("task {} waits ({}): {}", id_, view.reason,
           base::Printable(base::LocalTimes(view.reason_text), 500));
  }

  void TakeVerdict(const api::TaskView& view) {
    // Exit codes and signals speak for themselves; other outcomes, such as a failed start, need a
    // reason.
    const bool told = view.reason == "NonZeroExit" || view.reason == "Signal";
    const std::string why = told ? "" : base::Printable(base::LocalTimes(view.reason_text), 1000);
    if (view.state != "succeeded")
      Tell("task {} {}{}", id_, EndText(view), why.empty() ? "" : ": " + why);
    Finish(ExitCodeOf(view));
  }

  // Keeps waiting while the daemon does not answer, because tasks outlive the daemon. Once the
  // task's process has ended, gives up after kVerdictPatience and uses that process's exit code.
  void LookInVain(const base::Error& error) {
    Tell("{}; waiting for it", error.message);
    if (ended_at_ && SteadyClock::now() - *ended_at_ > kVerdictPatience) Finish(exit_code_);
  }

  void Finish(int exit_code) {
    context_.exit_code = exit_code;
    over_ = true;
  }

  Context& context_;
  const RunFlags& flags_;
  task::AttachListener listener_;
  const Streams streams_;
  CaughtSignals signals_;
  std::uint64_t id_ = 0;
  std::chrono::milliseconds look_ = kFirstLook;
  std::optional<SteadyClock::time_point> ended_at_;  // end of the last attempt that ran here
  int exit_code_ = kExitFailure;                     // exit code of that attempt
  std::string told_;
  bool over_ = false;
};

// Submits the context's words as a task, waits for the task to start, and connects it to this
// terminal or to the standard streams. Sets context.exit_code to the task's exit code. If this
// program exits first, the task gets SIGHUP.
Result<Unit> RunHere(Context& context, RunFlags flags) {
  auto listener = CARMA_TRY(task::AttachListener::Open());
  const bool has_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  const Streams streams{.terminal = flags.terminal.value_or(has_terminal)};
  flags.submit.here = SubmitFlags::Here{
      .name = listener.name(), .terminal = streams.terminal, .once = ComesOnce(STDIN_FILENO)};
  const auto described = CARMA_TRY(DescribeWords(context, flags.submit));
  if (!described.specs.empty())
    return Invalid("--param: a sweep creates several tasks; use carma submit instead");
  const auto answer = CARMA_TRY(SubmitTasks(context.client(), {described.spec}));
  for (const std::string& warning : answer.value.warnings) Warn(context, warning);
  Runner(context, flags, std::move(listener), streams).Run(answer.value.first);
  return Unit{};
}

// Adds the task's options and the options shared by `run` and `shell`.
std::shared_ptr<RunFlags> AddRunOptions(Syntax verb) {
  auto flags = std::make_shared<RunFlags>();
  AddTaskOptions(verb);
  verb.AddFlag("--no-check", flags->submit.no_check,
               "do not check that the program, working directory and conda environment exist");
  verb.AddFlag("-q,--quiet", flags->quiet, "print only the task's own output, and errors");
  return flags;
}

// Returns the settings of a task that a user watches at a terminal. By default, such a task is not
// retried or requeued.
Settings WatchedSettings(Syntax verb, const char* name) {
  Settings settings{{"retries", "0"}, {"no-requeue", ""}, {"job-name", name}};
  std::ranges::move(GivenOptions(verb), std::back_inserter(settings));
  return settings;
}

}  // namespace

void AddRunCommand(Syntax app, Context& context) {
  struct Flags {
    bool pty = false;
    bool no_pty = false;
  };
  auto pty = std::make_shared<Flags>();
  const Syntax verb = app.AddVerb(
      "run",
      "Wait for GPUs, then run a command in this terminal (stdin and signals are passed through)");
  verb.Footer(
      "Waits like any task, then runs in this terminal and exits with the command's exit code.\n"
      "  carma run --gpu-mem 12G -- python3 train.py\n"
      "  carma run -G 2 -- torchrun --nproc-per-node 2 train.py\n"
      "  zcat data.gz | carma run ./score > result      pipes go to the task\n"
      "Ctrl-C interrupts the task, or removes it from the queue. The task keeps running while\n"
      "carmad is down, and gets SIGHUP when this program exits. After running out of GPU memory,\n"
      "it restarts here unless its input is a pipe or a file. --output FILE keeps a copy of its\n"
      "output.\n");
  auto flags = AddRunOptions(verb);
  const Option always =
      verb.AddFlag("--pty", pty->pty,
                   "give the task its own terminal (default: if stdin and stdout are terminals)");
  verb.AddFlag("--no-pty", pty->no_pty,
               "do not allocate a terminal; use this program's standard streams")
      .Excludes(always);
  verb.OnRun([&context, flags, pty, verb] {
    flags->submit.settings = GivenOptions(verb);
    if (pty->pty || pty->no_pty) flags->terminal = pty->pty;
    context.Report(RunHere(context, *flags));
  });
}

void AddShellCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("shell", "Open a shell with GPUs in this terminal");
  verb.Footer(
      "  carma shell -G 1 --gpu-mem 20G --time 2h\n"
      "  carma shell -- bash -l        instead of $SHELL\n");
  auto flags = AddRunOptions(verb);
  verb.OnRun([&context, flags, verb] {
    flags->submit.settings = WatchedSettings(verb, "shell");
    if (context.words.empty()) context.words = {base::GetEnv("SHELL", "/bin/sh")};
    context.literal = true;
    context.Report(RunHere(context, *flags));
  });
}

void AddSshCommand(Syntax app, Context& context) {
  const Syntax verb = app.AddVerb("ssh",
                                  "Run an ssh server inside a task, over stdin and stdout, for use "
                                  "as an editor's ProxyCommand");
  verb.Footer(
      "In ~/.ssh/config on your own machine:\n"
      "  Host gpu\n"
      "    ProxyCommand ssh SERVER carma ssh -G 1 --gpu-mem 12G --time 8h\n"
      "Then 'ssh gpu' and VS Code Remote run inside a task with its GPUs, limits and environment.\n"
      "The task ends when the connection closes, and the connection closes when the task ends.\n"
      "Keys are read from ~/.ssh/authorized_keys. Requires OpenSSH's sshd on the server; see\n"
      "docs/use/notebooks.md.\n");
  auto flags = AddRunOptions(verb);
  verb.OnRun([&context, flags, verb] {
    flags->submit.settings = WatchedSettings(verb, "ssh");
    context.words = {base::ExecutableDir() + "/../libexec/carma/sshd"};
    context.literal = true;
    flags->terminal = false;
    context.Report(RunHere(context, *flags));
  });
}

}  // namespace carma::cli
