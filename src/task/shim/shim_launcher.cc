#include "task/shim/shim_launcher.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/pidfd.h"
#include "base/text.h"
#include "base/try.h"
#include "task/process/process_tree.h"
#include "task/shim/attempt_folder.h"
#include "task/shim/launcher_poll.h"
#include "task/shim/shim_event.h"
#include "task/shim/shim_protocol.h"
#include "task/shim/shim_spawn.h"
#include "task/shim/supervisor.h"

namespace carma::task {
namespace {

using base::Field;
using base::UniqueFd;

constexpr std::size_t kMaxEarlyBytes = 1 << 18;
// Polling interval for attempts that have no descriptor to report their events. Either the attempt
// was adopted before its shim had reported, or no descriptor was left for its shim, or carmad could
// not read its folder.
constexpr std::chrono::milliseconds kLook{20};

// A shim that survives a kill (because a disk does not respond) is killed again after this time,
// which doubles each time. Otherwise, many such shims would keep the loop busy.
constexpr std::chrono::seconds kKillAgain{1}, kKillSeldom{32};
constexpr base::Duration kUsualGrace{30'000};

using SteadyClock = std::chrono::steady_clock;

enum class Source : std::uint64_t { kShim, kAnswers };
constexpr std::uint64_t kSources = 2;

struct Attempt : KnownAttempt {
  base::ProcessId shim;
  UniqueFd shim_fd;      // pidfd: readable when the shim is gone; empty: no descriptor was free
  UniqueFd answers;      // the early answers of a shim that we started
  std::string unread;    // an unfinished line of the answers
  bool adopted = false;  // from an earlier run of the daemon
  bool told_started = false;  // kStarted has been reported
  bool reported = false;      // kExited was reported early, so the shim must only be reaped
  bool unsettled = false;     // the shim is gone or never existed, so the folder must be read again
  std::optional<base::Duration> grace;             // empty: as in the attempt's order
  std::optional<SteadyClock::time_point> kill_at;  // set once the attempt was asked to stop
  std::chrono::seconds kill_again = kKillAgain;
  int kill_rounds = 0;  // how often the processes of a hung attempt were killed
  std::optional<SteadyClock::time_point> killed_at;  // the last of these times
  std::optional<SteadyClock::time_point> start_by;   // when to act if the task has not started
  bool start_warned = false, gave_up = false;        // gave_up: the shim was killed for this reason
  bool hang_told = false;                            // the hang of the shim was logged
};

class ShimLauncher final : public Launcher {
 public:
  explicit ShimLauncher(ShimLauncherOptions options);
  // Must be called once, before any other function. Returns a system error on failure.
  Result<Unit> Open() { return poll_.Open("preparing to start tasks"); }
  void Start(LaunchOrder order) override;
  void Stop(core::TaskId id, int attempt, const std::string& why) override;
  void Warn(core::TaskId id, int attempt) override;
  void Confine(core::TaskId id, int attempt, const std::string& cores) override;
  bool LimitMemory(core::TaskId id, int attempt, const std::vector<std::string>& limits) override;
  void AskToSave(core::TaskId id, int attempt, base::Time leaves_by) override;
  void DropDeadline(core::TaskId id, int attempt) override;
  void Adopt(const KnownAttempt& attempt) override;
  void Forget(core::TaskId id, int attempt, const std::string& attempt_dir) override;
  std::optional<core::TaskId> TaskOfShim(const base::ProcessId& process) const override;
  int PollFd() const override { return poll_.fd(); }
  void Poll(const Sink& sink) override;

 private:
  using Key = std::pair<core::TaskId, int>;

  Attempt* Find(core::TaskId id, int attempt);
  void Track(Attempt attempt);
  void Settle(Attempt attempt);
  static void Signal(const Attempt& attempt, int number);  // sends the signal to the shim
  // Remembers the attempt's shim. If a stop was requested before the shim was known, the shim gets
  // the request now, and its grace period begins now.
  void KnowShim(Attempt& attempt, const base::ProcessId& shim) const;
  bool Watch(int fd, std::uint64_t serial, Source source);
  void Push(ShimEvent event);
  void PushStarted(Attempt& attempt, const ShimStarted& started);
  void ReadAnswers(Attempt& attempt);
  void TakeAnswer(Attempt& attempt, std::string_view line);
  void OnShimGone(std::uint64_t serial);
  void OnTimer();
  void KillHung(Attempt& attempt);
  void OnLateStart(Attempt& attempt);
  // Returns true if the attempt must be polled because no descriptor reports its events.
  static bool NeedsLooking(const Attempt& attempt);
  static bool ShimHasEnded(const Attempt& attempt);
  void SetTimer();

  const ShimLauncherOptions options_;
  LauncherPoll poll_;
  std::uint64_t next_serial_ = 1;
  std::map<std::uint64_t, Attempt> attempts_;  // by serial number, which is the key in epoll
  std::map<Key, std::uint64_t> serials_;       // attempts whose end is not yet reported
  std::deque<ShimEvent> pending_;
  std::vector<std::string> leftover_groups_;  // killed groups whose processes were not yet gone
};

ShimLauncher::ShimLauncher(ShimLauncherOptions options) : options_(std::move(options)) {}

void ShimLauncher::Start(LaunchOrder order) {
  Attempt attempt{{order.id, order.attempt, order.attempt_dir, order.uid}};
  attempt.grace = order.kill_grace;
  if (Find(order.id, order.attempt) != nullptr) return;
  if (const Result<Unit> made = PrepareAttempt(order, options_.cgroup); !made)
    return Push(FailureOf(attempt, made.error()));
  Result<SpawnedShim> shim = SpawnShim(options_.shim_path, order.attempt_dir);
  if (!shim) return Push(FailureOf(attempt, shim.error()));
  attempt.shim = shim->process;
  attempt.shim_fd = std::move(shim->process_fd);
  attempt.answers = std::move(shim->answers);
  attempt.start_by = SteadyClock::now() + options_.start_warning;
  Track(std::move(attempt));
}

void ShimLauncher::Signal(const Attempt& attempt, int number) {
  if (attempt.shim_fd) {
    base::SendSignal(attempt.shim_fd, number);
  } else if (!attempt.adopted && !attempt.unsettled && attempt.shim.pid > 0) {
    ::kill(attempt.shim.pid, number);  // safe, because our child is not yet reaped
  } else {
    Tell(attempt.shim, {number});
  }
}

void ShimLauncher::Warn(core::TaskId id, int attempt) {
  if (const Attempt* found = Find(id, attempt); found != nullptr) Signal(*found, WarnSignal());
}

void TryStateDeadline(const Attempt& attempt, std::optional<base::Time> leaves_by,
                      bool asked = false) {
  if (const Result<Unit> stated = StateDeadline(attempt.dir, leaves_by, asked); !stated)
    base::LogWarn("deadline_not_stated", {{"task", attempt.id}, {"why", stated.error().message}});
}

void ShimLauncher::AskToSave(core::TaskId id, int attempt, base::Time leaves_by) {
  const Attempt* found = Find(id, attempt);
  if (found == nullptr || WasAsked(found->dir, leaves_by)) return;
  TryStateDeadline(*found, leaves_by);
  Signal(*found, SaveSignal());
  TryStateDeadline(*found, leaves_by, /*asked=*/true);
}

void ShimLauncher::DropDeadline(core::TaskId id, int attempt) {
  if (const Attempt* found = Find(id, attempt); found != nullptr)
    TryStateDeadline(*found, std::nullopt);
}

void ShimLauncher::Stop(core::TaskId id, int attempt, const std::string& why) {
  Attempt* found = Find(id, attempt);
  if (found == nullptr) return;
  (void)StateStop(found->dir, why);  // the task stops even if its terminal does not show why
  Signal(*found, StopSignal());
  if (found->kill_at) return;
  if (!found->grace) found->grace = KillGraceOf(found->dir).value_or(kUsualGrace);
  found->kill_at = SteadyClock::now() + *found->grace + options_.hang_margin;
  SetTimer();
}

void ShimLauncher::Confine(core::TaskId id, int attempt, const std::string& cores) {
  const Attempt* found = Find(id, attempt);
  if (found == nullptr || options_.cgroup.path.empty()) return;
  (void)TaskCgroup::ConfineTo(GroupOf(*found, options_.cgroup.path, found->shim.pid), cores);
}

bool ShimLauncher::LimitMemory(core::TaskId id, int attempt,
                               const std::vector<std::string>& limits) {
  const Attempt* found = Find(id, attempt);
  if (found == nullptr) return true;
  ReservedFile file;
  const std::string text = base::Join(limits, " ");
  if (!file.Reserve(found->dir, kLimitsFile, text.size()) || !file.Commit(text, /*durable=*/false))
    return false;
  Signal(*found, LimitSignal());
  return true;
}

// Kills the shim only once its task has no processes left. While one of them survives even SIGKILL,
// for example in a driver that hangs, the task keeps its GPUs.
void ShimLauncher::KillHung(Attempt& attempt) {
  attempt.kill_at = SteadyClock::now() + attempt.kill_again;
  // The shim may be unknown, because its folder cannot be read, or its pid may have been reused.
  if (!MayLive(attempt.shim)) return;
  attempt.kill_again = std::min(attempt.kill_again * 2, kKillSeldom);
  const std::vector<base::ProcessStat> left = Descendants(attempt.shim.pid);
  if (!options_.cgroup.path.empty())
    TaskCgroup::KillCgroup(GroupOf(attempt, options_.cgroup.path, attempt.shim.pid));
  for (const base::ProcessStat& process : left) Tell(process.id, {SIGKILL});
  const SteadyClock::time_point now = SteadyClock::now();
  if (!left.empty()) {
    attempt.killed_at = now;
    if (++attempt.kill_rounds == 2)
      base::LogWarn("task_does_not_die",
                    {Field{"task", attempt.id}, Field{"attempt", attempt.number},
                     Field{"pid", left.front().id.pid}});
    return;
  }
  // The shim may still be writing its report.
  if (attempt.killed_at && now - *attempt.killed_at < options_.hang_margin) return;
  if (!std::exchange(attempt.hang_told, true))
    base::LogWarn("shim_hangs", {Field{"task", attempt.id}, Field{"attempt", attempt.number},
                                 Field{"pid", attempt.shim.pid}});
  Tell(attempt.shim, {SIGKILL});
}

// Logs a warning at first. Later kills the shim, so that other tasks can use the GPUs while this
// task waits for another attempt.
void ShimLauncher::OnLateStart(Attempt& attempt) {
  attempt.start_by.reset();
  if (!std::exchange(attempt.start_warned, true)) {
    attempt.start_by = SteadyClock::now() + (options_.start_limit - options_.start_warning);
    const Result<ShimOrder> order = ReadOrder(attempt.dir);
    return base::LogWarn("start_hangs",
                         {Field{"task", attempt.id}, Field{"attempt", attempt.number},
                          Field{"user", order ? order->user : ""},
                          Field{"workdir", order ? order->spec.workdir : ""}});
  }
  // The task may have started and reported this to an earlier carmad.
  const std::string started = attempt.dir + "/" + kStartedFile;
  if (base::CheckExists(started).value_or(true) || !MayLive(attempt.shim)) return;
  attempt.gave_up = true;
  const std::vector<base::ProcessStat> children = Descendants(attempt.shim.pid);
  // The shim must die first, because it would report the end of its child as that of the task.
  Tell(attempt.shim, {SIGKILL});
  for (const base::ProcessStat& child : children) Tell(child.id, {SIGKILL});
}

void ShimLauncher::Adopt(const KnownAttempt& attempt) {
  if (Find(attempt.id, attempt.number) != nullptr) return;
  Attempt adopted{attempt};
  adopted.adopted = true;
  if (!attempt.started) adopted.start_by = SteadyClock::now() + options_.start_warning;
  Settle(std::move(adopted));
}

void ShimLauncher::KnowShim(Attempt& attempt, const base::ProcessId& shim) const {
  const bool stop_waits = attempt.kill_at && attempt.shim.pid <= 0;
  attempt.shim = shim;
  if (!stop_waits) return;
  Signal(attempt, StopSignal());
  // Reads the grace period again, because Stop() may not have been able to read the order.
  const base::Duration grace =
      KillGraceOf(attempt.dir).value_or(attempt.grace.value_or(kUsualGrace));
  attempt.kill_at = SteadyClock::now() + grace + options_.hang_margin;
}

// Ends the attempt, or continues to monitor it while its shim is alive.
void ShimLauncher::Settle(Attempt attempt) {
  const auto push = [&](ShimEvent event) {
    event.ended_before_adoption = attempt.adopted && attempt.shim.pid == 0;
    Push(std::move(event));
  };
  while (true) {
    // Every attempt that this launcher started has a folder. If the folder is gone, assume that the
    // attempt ran.
    const bool ran =
        attempt.told_started || attempt.started || (!attempt.adopted && !base::Exists(attempt.dir));
    Outcome outcome =
        SettleAttempt({attempt.id, attempt.number, attempt.dir, attempt.uid, ran}, options_.cgroup);
    if (outcome.started && !attempt.told_started) PushStarted(attempt, *outcome.started);
    if (!outcome.leftover_group.empty()) leftover_groups_.push_back(outcome.leftover_group);
    switch (outcome.kind) {
      case OutcomeKind::kLives: {
        KnowShim(attempt, outcome.shim);
        attempt.shim_fd = base::OpenPidfd(outcome.shim.pid);
        // Another process may have reused the PID before the descriptor was opened. If the shim is
        // still alive, the descriptor refers to it.
        if (MayLive(outcome.shim)) return Track(std::move(attempt));
        break;  // the shim has just exited; the next check reads what it left
      }
      case OutcomeKind::kUnknown:
        attempt.unsettled = true;
        if (outcome.shim.pid > 0) KnowShim(attempt, outcome.shim);
        return Track(std::move(attempt));
      case OutcomeKind::kReported:
        return push(EventOf(attempt, outcome.report));
      case OutcomeKind::kNeverBegan: {
        if (attempt.gave_up) return Push(NoStartOf(attempt));
        // The shim had not read the order, so the machine is at fault.
        ShimEvent event = FailureOf(attempt, base::Error{.message = outcome.text});
        event.interrupted = attempt.adopted;
        return push(std::move(event));
      }
      case OutcomeKind::kLost: {
        if (attempt.gave_up && !attempt.told_started) return Push(NoStartOf(attempt));
        base::LogWarn("task_lost", {Field{"task", attempt.id}, Field{"attempt", attempt.number},
                                    Field{"why", outcome.text}});
        ShimEvent event = EventOf(attempt, ShimEventKind::kExited);
        event.lost = true;
        return push(std::move(event));
      }
    }
  }
}

void ShimLauncher::Forget(core::TaskId id, int attempt, const std::string& attempt_dir) {
  // Keep the folder while the attempt is running, because it is the only record of the attempt.
  if (Find(id, attempt) != nullptr) return;
  if (const Result<Unit> removed = RemoveAttempt(attempt_dir); !removed) {
    base::LogWarn("attempt_folder_left", {Field{"task", id}, Field{"attempt", attempt},
                                          Field{"error", removed.error().message}});
  }
  std::erase_if(leftover_groups_,
                [](const std::string& group) { return TaskCgroup::RemoveCgroup(group); });
}

std::optional<core::TaskId> ShimLauncher::TaskOfShim(const base::ProcessId& process) const {
  for (const auto& [serial, attempt] : attempts_)
    if (attempt.shim == process) return attempt.id;
  return std::nullopt;
}

void ShimLauncher::Poll(const Sink& sink) {
  poll_.Take([this](std::uint64_t key) {
    if (key == LauncherPoll::kTimer) return OnTimer();
    const std::uint64_t serial = key / kSources;
    const auto found = attempts_.find(serial);
    if (found == attempts_.end()) return;
    if (static_cast<Source>(key % kSources) == Source::kShim) return OnShimGone(serial);
    ReadAnswers(found->second);
  });
  // The sink may call this launcher. Events added by these calls wake the loop and are delivered in
  // its next iteration.
  for (const ShimEvent& event : std::exchange(pending_, {})) sink(event);
}

Attempt* ShimLauncher::Find(core::TaskId id, int attempt) {
  const auto serial = serials_.find({id, attempt});
  return serial == serials_.end() ? nullptr : &attempts_.at(serial->second);
}

bool ShimLauncher::Watch(int fd, std::uint64_t serial, Source source) {
  return poll_.Watch(fd, serial * kSources + static_cast<std::uint64_t>(source));
}

void ShimLauncher::Track(Attempt attempt) {
  const std::uint64_t serial = next_serial_++;
  if (attempt.answers) Watch(attempt.answers.get(), serial, Source::kAnswers);
  // If epoll cannot watch the shim, the timer checks on it.
  if (attempt.shim_fd && !Watch(attempt.shim_fd.get(), serial, Source::kShim))
    attempt.shim_fd.reset();
  serials_[{attempt.id, attempt.number}] = serial;
  attempts_.emplace(serial, std::move(attempt));
  SetTimer();
}

void ShimLauncher::Push(ShimEvent event) {
  pending_.push_back(std::move(event));
  poll_.Wake();
}

void ShimLauncher::PushStarted(Attempt& attempt, const ShimStarted& started) {
  ShimEvent event = EventOf(attempt, ShimEventKind::kStarted);
  event.process = started.process;
  event.cgroup = started.cgroup;
  event.no_limit = started.no_limit;
  attempt.told_started = true;
  attempt.start_by.reset();
  Push(std::move(event));
}

void ShimLauncher::ReadAnswers(Attempt& attempt) {
  char buffer[16'384];
  ssize_t n = 0;
  while ((n = ::read(attempt.answers.get(), buffer, sizeof buffer)) > 0) {
    attempt.unread.append(buffer, static_cast<std::size_t>(n));
    std::size_t end = 0;
    while ((end = attempt.unread.find('\n')) != std::string::npos) {
      TakeAnswer(attempt, std::string_view(attempt.unread).substr(0, end));
      attempt.unread.erase(0, end + 1);
    }
    if (attempt.unread.size() > kMaxEarlyBytes) break;
  }
  const bool open = n < 0 && (errno == EAGAIN || errno == EINTR);
  // The pipe for answers is closed. The pidfd reports when the shim itself exits.
  if (!open) attempt.answers.reset();
}

void ShimLauncher::TakeAnswer(Attempt& attempt, std::string_view line) {
  if (attempt.reported) return;
  if (const Result<ShimStarted> started = ParseShimStarted(line)) {
    if (!attempt.told_started) PushStarted(attempt, *started);
  } else if (const Result<ShimReport> report = ParseShimReport(line)) {
    // The shim could not write its report to disk yet, so it sent the report through the pipe. Its
    // exit will add no information.
    attempt.reported = true;
    attempt.start_by.reset();
    serials_.erase({attempt.id, attempt.number});
    Push(EventOf(attempt, *report));
  }
}

void ShimLauncher::OnShimGone(std::uint64_t serial) {
  Attempt attempt = std::move(attempts_.at(serial));
  attempts_.erase(serial);
  if (attempt.answers) ReadAnswers(attempt);
  siginfo_t info{};
  // Reap the shim if it is our child. If an earlier carmad started it, waitid() simply fails.
  const bool reaped = std::exchange(attempt.unsettled, false);
  const idtype_t by = attempt.shim_fd ? P_PIDFD : P_PID;
  const int which = attempt.shim_fd ? attempt.shim_fd.get() : attempt.shim.pid;
  if (!reaped) ::waitid(by, static_cast<id_t>(which), &info, WEXITED | WNOHANG);
  if (attempt.reported) return;
  serials_.erase({attempt.id, attempt.number});
  attempt.shim_fd.reset();
  Settle(std::move(attempt));
}

// Checks the shim's process itself, because there is no descriptor for it.
bool ShimLauncher::ShimHasEnded(const Attempt& attempt) {
  if (attempt.adopted) return !MayLive(attempt.shim);
  siginfo_t info{};
  const auto pid = static_cast<id_t>(attempt.shim.pid);
  return ::waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

bool ShimLauncher::NeedsLooking(const Attempt& attempt) {
  if (attempt.unsettled) return true;
  return !attempt.shim_fd || (!attempt.told_started && !attempt.answers && !attempt.reported);
}

void ShimLauncher::OnTimer() {
  std::vector<std::uint64_t> gone;
  const SteadyClock::time_point now = SteadyClock::now();
  for (auto& [serial, attempt] : attempts_) {
    if (attempt.kill_at && now >= *attempt.kill_at) KillHung(attempt);
    if (attempt.start_by && now >= *attempt.start_by && !attempt.unsettled) OnLateStart(attempt);
    if (!NeedsLooking(attempt)) continue;
    if (!attempt.told_started && !attempt.reported) {
      const std::optional<ShimStarted> started = ReadStarted(attempt.dir);
      if (started) PushStarted(attempt, *started);
    }
    if (attempt.unsettled || (!attempt.shim_fd && ShimHasEnded(attempt))) gone.push_back(serial);
  }
  for (const std::uint64_t serial : gone) OnShimGone(serial);
  SetTimer();
}

void ShimLauncher::SetTimer() {
  using std::chrono::nanoseconds;
  std::optional<nanoseconds> next;
  const auto sooner = [&next](nanoseconds wait) { next = std::min(next.value_or(wait), wait); };
  const SteadyClock::time_point now = SteadyClock::now();
  for (const auto& [serial, attempt] : attempts_) {
    if (NeedsLooking(attempt)) sooner(kLook);
    if (attempt.kill_at) sooner(*attempt.kill_at - now);
    if (attempt.start_by && !attempt.unsettled) sooner(*attempt.start_by - now);
  }
  poll_.SetTimer(next);
}

}  // namespace

Result<std::unique_ptr<Launcher>> MakeShimLauncher(ShimLauncherOptions options) {
  auto launcher = std::make_unique<ShimLauncher>(std::move(options));
  CARMA_TRY(launcher->Open());
  return launcher;
}

}  // namespace carma::task
