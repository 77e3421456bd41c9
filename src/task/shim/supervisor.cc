#include "task/shim/supervisor.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "task/process/process_tree.h"
#include "task/shim/container_processes.h"

namespace carma::task {
namespace {

// Interval between rounds of KILL. Several rounds are needed, because a process that was just being
// forked may have escaped the previous one.
constexpr std::int64_t kKillRoundNs = 20'000'000;
// While processes fail to exit, the interval doubles up to this limit, because each round reads
// every process on the machine.
constexpr std::int64_t kMaxKillRoundNs = 1'000'000'000;
// When a machine shuts down or an allocation ends, the system signals all processes in any order.
// So if a task dies of SIGTERM or SIGINT and the shim gets such a signal within this time, the
// attempt counts as lost.
constexpr std::int64_t kSameSignalNs = 300'000'000;
// How long a container tool's helpers may take to exit on their own after the tool has exited.
constexpr std::int64_t kHelpersNs = 300'000'000;
// Interval between searches for processes that can be warned, asked to checkpoint, or sent SIGHUP.
constexpr std::int64_t kAskAgainNs = 1'000'000'000;

std::int64_t SteadyNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

std::int64_t WallMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The earlier of two times; 0 means none.
std::int64_t Earlier(std::int64_t a_ns, std::int64_t b_ns) {
  return a_ns == 0 || b_ns == 0 ? a_ns + b_ns : std::min(a_ns, b_ns);
}

// Returns true if the process died of SIGTERM or SIGINT, which the system sends to terminate
// processes. Also true if a shell's exit code reports one of these.
bool DiedOfTheSystemsSignal(const ShimReport& report) {
  const int number = report.signal != 0 ? report.signal : report.exit_code - 128;
  return number == SIGTERM || number == SIGINT;
}

}  // namespace

int StopSignal() {
  return SIGUSR1;
}

int WarnSignal() {
  return SIGUSR2;
}

int SaveSignal() {
  return SIGRTMIN;
}

int LimitSignal() {
  return SIGRTMIN + 1;
}

base::UniqueFd ListenToSignals() {
  sigset_t all, ours;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::sigemptyset(&ours);
  for (const int number :
       {SIGCHLD, StopSignal(), WarnSignal(), SaveSignal(), LimitSignal(), SIGTERM, SIGINT})
    ::sigaddset(&ours, number);
  return base::UniqueFd(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
}

Supervisor::Supervisor(pid_t main_pid, base::Duration grace, int signal_fd, OutputPump& pump,
                       WornRights& rights, const TaskCgroup* group,
                       std::optional<std::int64_t> oom_baseline, Attachment* attachment,
                       WarningSignal warning, int checkpoint_signal)
    : main_(main_pid),
      grace_(grace),
      signal_fd_(signal_fd),
      pump_(pump),
      rights_(rights),
      group_(group),
      oom_baseline_(oom_baseline),
      attachment_(attachment),
      warning_(warning),
      checkpoint_signal_(checkpoint_signal) {}

ShimReport Supervisor::Run(std::string stop_file) {
  stop_file_ = std::move(stop_file);
  WearRights();
  Reap();
  while (!status_ || !childless_ || SteadyNs() < same_signal_until_ns_) {
    pollfd fds[] = {{signal_fd_, POLLIN, 0},
                    {pump_.poll_fd(0), POLLIN, 0},
                    {pump_.poll_fd(1), POLLIN, 0},
                    {attachment_ == nullptr ? -1 : attachment_->socket_fd(),
                     attachment_ == nullptr ? short{0} : attachment_->socket_events(), 0},
                    {attachment_ == nullptr ? -1 : attachment_->terminal_fd(), POLLOUT, 0}};
    ::poll(fds, std::size(fds), PollTimeoutMs());
    for (int stream = 0; stream < 2; ++stream) {
      if (fds[stream + 1].revents != 0) pump_.Move(stream);
    }
    if (pump_.progress() != nullptr) pump_.progress()->LookIfDue();
    if ((fds[3].revents | fds[4].revents) != 0) ServeAttachment();
    if (fds[0].revents != 0) ReadSignals();
    CheckDeadline();
    if (ask_again_ns_ != 0 && SteadyNs() >= ask_again_ns_) AskToSave();
    if (warn_again_ns_ != 0 && SteadyNs() >= warn_again_ns_) Warn();
    if (hang_up_ns_ != 0 && SteadyNs() >= hang_up_ns_) HangUp();
  }
  pump_.Finish();
  rights_.DropPrivileges();
  report_.host_oom = HostOom();
  report_.stderr_tail = pump_.StderrTail();
  report_.dropped_output_bytes = pump_.DroppedBytes();
  report_.output_error = pump_.WriteError();
  return report_;
}

// Output files must be written as the user, because of quotas, root's reserved blocks and network
// file systems. The shim regains its own privileges only to signal processes and change limits. If
// it cannot become the user again, it aborts; otherwise root would rotate files along paths that
// the user controls.
void Supervisor::WearRights() {
  CARMA_CHECK(rights_.Wear(), "cannot switch to the task's user");
}

void Supervisor::ReadSignals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) {
      Reap();
    } else if (number == WarnSignal()) {
      Warn();
    } else if (number == SaveSignal()) {
      AskToSave();
    } else if (number == LimitSignal()) {
      ChangeLimits();
    } else {
      // A task that has ended on its own keeps its exit status, even if the system is now stopping
      // the shim.
      if (number != StopSignal() && (!status_ || SteadyNs() < same_signal_until_ns_))
        report_.lost = true;
      same_signal_until_ns_ = 0;
      BeginStop();
    }
  }
}

void Supervisor::Reap() {
  while (true) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    if (pid < 0 && errno == EINTR) continue;
    childless_ = pid < 0;
    if (pid <= 0) break;
    report_.max_rss_kib = std::max<std::int64_t>(report_.max_rss_kib, usage.ru_maxrss);
    if (pid != main_) continue;
    status_ = status;
    report_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    report_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (!stopping_ && DiedOfTheSystemsSignal(report_))
      same_signal_until_ns_ = SteadyNs() + kSameSignalNs;
    report_.ended_ms = WallMs();
    report_.ended_boot_ns = base::BootTimeNs();
  }
  // Orphans become children of the shim, so "no child" means that the task has no processes left.
  if (!status_ || childless_) return;
  BeginStop();
  if (container_) HurryHelpers();
}

void Supervisor::HurryHelpers() {
  if (killed_ || !Inside().empty()) return;
  deadline_ns_ = std::min(deadline_ns_, SteadyNs() + kHelpersNs);
}

std::vector<base::ProcessStat> Supervisor::Inside() const {
  return ProcessesInside(::getpid(), *container_);
}

void Supervisor::ServeAttachment() {
  const Attachment::Asked asked = attachment_->Handle();
  for (const int number : asked.signals) {
    if (!status_) ::kill(-main_, number);
  }
  if (!asked.gone) return;
  // Use SIGHUP, as the kernel does when a terminal is closed.
  pump_.Note("this task's 'carma run' has disconnected");
  BeginStop(SIGHUP);
}

void Supervisor::BeginStop(int number) {
  if (stopping_) return;
  stopping_ = true;
  deadline_ns_ = SteadyNs() + std::chrono::nanoseconds(grace_).count();
  const bool at_terminal =
      number == SIGTERM && !status_ && attachment_ != nullptr && attachment_->has_terminal();
  if (at_terminal) TellStop();
  SignalAll({number, SIGCONT});
  if (at_terminal) HangUp();
}

void Supervisor::TellStop() {
  const std::string why = base::Printable(
      base::LocalTimes(base::ReadFile(stop_file_, kMaxStopBytes).value_or("")), 1000);
  attachment_->Tell(
      {.kind = AttachMessage::Kind::kOutput,
       .data = "\r\ncarma: this task is being stopped" + (why.empty() ? "" : ": " + why) + "\r\n"});
}

void Supervisor::HangUp() {
  hang_up_ns_ = 0;
  if (status_ || killed_) return;
  rights_.DropPrivileges();
  const std::vector<base::ProcessStat> left = container_ ? Inside() : Descendants(::getpid());
  const bool shells = std::ranges::all_of(
      left, [](const base::ProcessStat& process) { return IsInteractiveShell(process.id); });
  WearRights();
  if (shells) return SignalAll({SIGHUP});
  hang_up_ns_ = SteadyNs() + kAskAgainNs;
}

// Sends the signal either to the main process only, or to all processes that handle it. Processes
// without a handler would die, such as a `tee` of the output or a training process that has not
// saved.
void Supervisor::Warn() {
  if (warning_.number == 0 || stopping_ || status_) {
    warn_again_ns_ = 0;
    return;
  }
  const bool again = std::exchange(warn_again_ns_, 0) != 0;
  if (warning_.main_only) {
    rights_.DropPrivileges();
    ::kill(main_, warning_.number);
    WearRights();
    return;
  }
  if (SignalHandlers(warning_.number, warning_.spares_main) > 0) return;
  // The task may have only just started, and programs take a while to install signal handlers.
  warn_again_ns_ = SteadyNs() + kAskAgainNs;
  if (again) return;
  const std::string name = ::sigabbrev_np(warning_.number);
  const std::optional<base::ProcessStat> shell =
      warning_.spares_main && !container_ ? base::ReadProcessStat(main_) : std::nullopt;
  if (shell && Catches(shell->id, warning_.number)) {
    pump_.Note("the time limit is near, but only the script's shell handles " + name +
               "; use --signal B:" + name + "@TIME to send it there");
  } else {
    pump_.Note("the time limit is near, but no process of this task handles " + name);
  }
}

void Supervisor::AskToSave() {
  if (checkpoint_signal_ == 0 || stopping_ || status_) {
    ask_again_ns_ = 0;
    return;
  }
  const bool again = std::exchange(ask_again_ns_, 0) != 0;
  if (SignalHandlers(checkpoint_signal_, false) > 0) return;
  ask_again_ns_ = SteadyNs() + kAskAgainNs;
  if (again) return;
  pump_.Note(std::string("this task was asked to checkpoint with ") +
             ::sigabbrev_np(checkpoint_signal_) +
             ", but none of its processes handles that signal");
}

void Supervisor::ChangeLimits() {
  if (!change_limits_) return;
  rights_.DropPrivileges();
  const std::string trouble = change_limits_();
  WearRights();
  if (!trouble.empty()) pump_.Note("this task's GPU memory limit could not be changed: " + trouble);
}

// If the main process is spared, SIGTERM, SIGINT and SIGHUP go to srun's children even if they have
// no handler. As in Slurm, the script then continues after its steps.
int Supervisor::SignalHandlers(int number, bool spares_main) {
  const bool ends = number == SIGTERM || number == SIGINT || number == SIGHUP;
  rights_.DropPrivileges();
  int told = 0;
  std::set<pid_t> sruns;
  const std::vector<base::ProcessStat> processes = container_ ? Inside() : Descendants(::getpid());
  for (const base::ProcessStat& process : processes) {
    if (process.command == "srun") sruns.insert(process.id.pid);
  }
  for (const base::ProcessStat& process : processes) {
    if (spares_main && process.id.pid == main_) continue;
    const bool step = ends && spares_main && sruns.contains(process.parent);
    if (!step && !Catches(process.id, number)) continue;
    Tell(process.id, {number});
    ++told;
  }
  WearRights();
  return told;
}

// Signals the group first, which the kernel does in one step, and then the processes that left the
// group. No process gets a signal twice, because some programs treat a second TERM as a request to
// exit without saving. Once the main process is reaped and its group is empty, its PID may belong
// to another process, so each process is signalled individually.
void Supervisor::SignalAll(std::initializer_list<int> numbers) {
  rights_.DropPrivileges();
  // While the container has no process yet, the signal goes to the tool itself.
  const bool kills = std::ranges::find(numbers, SIGKILL) != numbers.end();
  const std::vector<base::ProcessStat> inside =
      container_ && !kills ? Inside() : std::vector<base::ProcessStat>();
  for (const base::ProcessStat& process : inside) Tell(process.id, numbers);
  if (!inside.empty() || (container_ && !kills && status_)) return WearRights();
  const bool group_is_ours = !status_;
  for (const int number : numbers) {
    if (group_is_ours) ::kill(-main_, number);
  }
  for (const base::ProcessStat& process : Descendants(::getpid())) {
    if (group_is_ours && process.group == main_) continue;
    Tell(process.id, numbers);
  }
  WearRights();
}

void Supervisor::KillAll() {
  killed_ = true;
  if (group_ != nullptr) {
    rights_.DropPrivileges();
    (void)group_->Kill();
  }
  SignalAll({SIGKILL});
}

void Supervisor::CheckDeadline() {
  if (!stopping_ || (status_ && childless_) || SteadyNs() < deadline_ns_) return;
  const bool again = killed_;
  KillAll();
  kill_round_ns_ = again ? std::min(2 * kill_round_ns_, kMaxKillRoundNs) : kKillRoundNs;
  if (again && kill_round_ns_ == kMaxKillRoundNs && !std::exchange(told_undying_, true))
    pump_.Note(
        "a process of the task has not exited even though it was killed; the task keeps its GPUs");
  deadline_ns_ = SteadyNs() + kill_round_ns_;
}

int Supervisor::PollTimeoutMs() const {
  const bool dead = status_ && childless_;
  const std::int64_t until_ns = dead        ? same_signal_until_ns_
                                : stopping_ ? Earlier(deadline_ns_, hang_up_ns_)
                                            : Earlier(ask_again_ns_, warn_again_ns_);
  const std::optional<int> look =
      pump_.progress() == nullptr ? std::nullopt : pump_.progress()->DueInMs();
  if (until_ns == 0) return dead ? 0 : look.value_or(-1);
  // Rounds up, because waits that end slightly early would repeat in a busy loop until the
  // deadline.
  const std::int64_t left_ms = (until_ns - SteadyNs() + 999'999) / 1'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, look.value_or(3'600'000)));
}

bool Supervisor::HostOom() const {
  const std::optional<std::int64_t> kills = group_ == nullptr ? std::nullopt : group_->OomKills();
  if (!kills || *kills <= oom_baseline_.value_or(0)) return false;
  // If only the parent group counts kills, the count may include other tasks. The count is then
  // used only if the main process died of a SIGKILL that did not come from the shim.
  return group_->CountsOomKills() || (report_.signal == SIGKILL && !killed_);
}

}  // namespace carma::task
