#include "task/lease/lease_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pidfd.h"
#include "base/signal_name.h"
#include "base/text.h"
#include "base/try.h"
#include "task/lease/lease_book.h"
#include "task/lease/lease_processes.h"
#include "task/shim/launcher_poll.h"

namespace carma::task {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKillAgain{1};
// Interval between checks of a process for which no file descriptor was available.
constexpr std::chrono::milliseconds kLook{200};
// Delay before first checking whether the command has started. Doubles with each check, up to
// kLook.
constexpr std::chrono::milliseconds kFirstLook{1};

// LauncherPoll key of the launcher for all tasks other than leases. Processes of a lease use the
// lease's number as their key.
constexpr std::uint64_t kOthers = 0;

ShimEvent EventOf(ShimEventKind kind, core::TaskId id, int attempt) {
  return {.kind = kind, .id = id, .attempt = attempt};
}

class RealLeaseLauncher final : public LeaseLauncher {
 public:
  RealLeaseLauncher(std::unique_ptr<Launcher> others, Options options)
      : LeaseLauncher(options.daemon), others_(std::move(others)), options_(options) {}

  Result<Unit> Open() {
    constexpr const char* kDoing = "preparing to watch leases";
    CARMA_TRY(poll_.Open(kDoing));
    if (others_->PollFd() >= 0 && !poll_.Watch(others_->PollFd(), kOthers))
      return FailErrno(errno, kDoing);
    if (options_.ends_dir.empty()) return Unit{};
    return base::MakeDirs(options_.ends_dir, 0700);
  }

  // ---- requests about leases ----

  void Listen(Listener listener) override { listener_ = std::move(listener); }

  void Watch(core::TaskId id, const LeaseProcess& process,
             const std::optional<LeaseKey>& key) override {
    if (Find(id) != nullptr) return;
    Lease& lease = leases_[id];
    lease.key = key;
    lease.members.push_back({process, {}, key.has_value()});
    WatchMember(id, lease.members.back());
  }

  Result<Environment> AdoptLease(core::TaskId id, const LeaseProcess& process) override {
    const bool has_it = CARMA_TRY(MayAdopt(id, process));
    Lease& lease = *Find(id);
    if (has_it) return lease.environment;
    const bool first = !lease.adopted;
    CARMA_TRY(AddLeaseMember(lease, {process, {}, false}));
    if (first) {
      TakeAdopted(id, lease);
    } else {
      WatchMember(id, lease.members.back());
    }
    return lease.environment;
  }

  Result<Unit> JoinLease(core::TaskId id, const LeaseProcess& keeper) override {
    if (!Adopted(id) || !KeyOf(id)) return Conflict("lease {} has not been adopted", id);
    Lease& lease = *Find(id);
    const auto is_member = [&](const LeaseMember& each) { return each.process == keeper; };
    if (std::ranges::any_of(lease.members, is_member)) return Unit{};
    CARMA_TRY(AddLeaseMember(lease, {keeper, {}, true}));
    WatchMember(id, lease.members.back());
    if (!lease.begun) return Unit{};  // Begin() will report the keeper with the others
    joined_.emplace_back(id, keeper.process);
    poll_.Wake();
    return Unit{};
  }

  Result<Unit> EndLease(core::TaskId id, const LeaseEnd& end) override {
    if (!Adopted(id)) return Conflict("lease {} has not been adopted", id);
    LeaseEnd told = end;
    if (!base::IsUtf8(told.stderr_tail)) told.stderr_tail.clear();
    CARMA_TRY(base::Wrap(KeepEnd(*Find(id), told), "recording how a lease ended"));
    End(id, told);
    return Unit{};
  }

  // ---- Launcher ----

  void Start(LaunchOrder order) override {
    const std::optional<LeaseProcess> process =
        order.spec.lease ? ParseLeaseProcess(*order.spec.lease) : std::nullopt;
    if (!process) return others_->Start(std::move(order));
    Watch(order.id, *process, ParseLeaseKey(order.spec.lease_key.value_or("")));
    Lease& lease = *Find(order.id);
    if (lease.attempt == order.attempt) return;
    lease.attempt = order.attempt;
    lease.dir = order.attempt_dir;
    lease.uid = order.uid;
    lease.environment = EnvironmentOf(order);
    lease.grace = order.kill_grace;
    lease.checkpoint_signal = order.checkpoint_signal;
    Result<Unit> kept = base::MakeDirs(lease.dir, 0711);
    if (kept) kept = KeepGrant(lease);
    if (!kept) return Withdraw(order.id, kept.error().message, /*retryable=*/true);
    Grant(order.id, lease);
  }

  void Stop(core::TaskId id, int attempt, const std::string& why) override {
    Lease* lease = Find(id, attempt);
    if (lease == nullptr) return others_->Stop(id, attempt, why);
    if (!lease->adopted)
      return Withdraw(
          id, "lease withdrawn: the task was stopped before any process adopted its grant", false);
    if (lease->kill_at) return;
    // A stopped process would get SIGTERM only once it continues.
    for (const int number : {SIGTERM, SIGCONT}) SignalProcesses(*lease, number, options_.daemon);
    lease->kill_at = SteadyClock::now() + lease->grace;
    lease->leave_at = *lease->kill_at + options_.kill_limit;
    SetTimer();
  }

  void Confine(core::TaskId id, int attempt, const std::string& cores) override {
    if (Find(id, attempt) == nullptr) others_->Confine(id, attempt, cores);
  }

  bool LimitMemory(core::TaskId id, int attempt, const std::vector<std::string>& limits) override {
    return others_->LimitMemory(id, attempt, limits);
  }

  void Warn(core::TaskId id, int attempt) override {
    if (Find(id, attempt) == nullptr) others_->Warn(id, attempt);
  }

  void DropDeadline(core::TaskId id, int attempt) override { others_->DropDeadline(id, attempt); }

  void AskToSave(core::TaskId id, int attempt, base::Time leaves_by) override {
    const Lease* lease = Find(id, attempt);
    if (lease == nullptr) return others_->AskToSave(id, attempt, leaves_by);
    const std::optional<int> number = base::SignalNumber(lease->checkpoint_signal);
    if (!lease->adopted || !number) return;
    SignalProcesses(*lease, *number, options_.daemon, /*handlers_only=*/true);
  }

  // Restores the lease, so that a restarted daemon sees the same state as before.
  void Adopt(const KnownAttempt& attempt) override {
    std::optional<Lease> known = ReadGrant(attempt.dir);
    if (!known) return others_->Adopt(attempt);
    const core::TaskId id = attempt.id;
    known->attempt = attempt.number;
    Lease& lease = leases_[id] = *std::move(known);
    std::vector<LeaseMember> by = ReadMembers(lease.dir);
    const bool adopted = !by.empty();
    if (adopted) lease.members = std::move(by);
    lease.found_gone = std::ranges::none_of(
        lease.members, [](const LeaseMember& each) { return Alive(each.process); });
    if (adopted) {
      lease.begun = attempt.started;
      lease.missed = !lease.begun;
      TakeAdopted(id, lease);
    }
    std::optional<LeaseEnd> end = ReadEnd(lease.dir);
    if (!end) end = ReadLeftEnd(options_.ends_dir, id, lease);
    if (end && adopted) return End(id, *end);
    if (adopted) return;
    WatchMember(id, lease.members.front());
    Grant(id, lease);
  }

  void Forget(core::TaskId id, int attempt, const std::string& attempt_dir) override {
    if (Find(id, attempt) == nullptr) others_->Forget(id, attempt, attempt_dir);
  }

  std::optional<core::TaskId> TaskOfShim(const base::ProcessId& process) const override {
    return others_->TaskOfShim(process);
  }

  int PollFd() const override { return poll_.fd(); }

  void Poll(const Sink& sink) override {
    poll_.Take([this](std::uint64_t key) {
      if (key == LauncherPoll::kTimer) return OnTimer();
      if (key != kOthers) OnGone(core::TaskId{key});
    });
    for (const core::TaskId id : std::exchange(gone_, {})) {
      if (listener_.gone) listener_.gone(id);
    }
    for (const core::TaskId id : std::exchange(granted_, {})) {
      if (listener_.granted) listener_.granted(id);
    }
    for (const ShimEvent& event : std::exchange(pending_, {})) sink(event);
    for (const auto& [id, process] : std::exchange(joined_, {})) {
      if (listener_.joined && Find(id) != nullptr) listener_.joined(id, process);
    }
    others_->Poll(sink);
  }

 private:
  void Push(ShimEvent event) {
    pending_.push_back(std::move(event));
    poll_.Wake();
  }

  // The descriptor may belong to another process that has reused the pid. It is used only if a
  // later check shows that it refers to the right process.
  void WatchMember(core::TaskId id, LeaseMember& member) {
    member.fd = base::OpenPidfd(member.process.process.pid);
    if (!Alive(member.process)) {
      member.fd.reset();
      return LookSoon();
    }
    if (member.fd && !poll_.Watch(member.fd.get(), core::Number(id))) member.fd.reset();
    if (!member.fd) LookSoon();
  }

  void LookSoon() {
    look_ = true;
    SetTimer();
  }

  void Grant(core::TaskId id, Lease& lease) {
    lease.stopped = IsStopped(lease);
    lease.withdraw_at =
        SteadyClock::now() + (lease.stopped ? SteadyClock::duration() : options_.adoption_limit);
    granted_.push_back(id);
    poll_.Wake();
    SetTimer();
  }

  // Marks the lease as adopted, watches its processes, and checks whether the task has started.
  void TakeAdopted(core::TaskId id, Lease& lease) {
    lease.adopted = true;
    lease.withdraw_at.reset();
    for (LeaseMember& each : lease.members) {
      if (!each.fd) WatchMember(id, each);
      if (!lease.main && !each.keeper) lease.main = each.process;
    }
    if (!lease.main) lease.main = lease.members.front().process;
    if (lease.begun) return Begin(id, lease);
    lease.begin_by = SteadyClock::now() + options_.adoption_limit;
    lease.look_in = kFirstLook;
    LookWhetherBegun(id, lease);
  }

  void Begin(core::TaskId id, Lease& lease) {
    lease.begun = true;
    lease.look_at.reset();
    for (const LeaseMember& each : lease.members) {
      if (each.keeper) joined_.emplace_back(id, each.process.process);
    }
    ShimEvent event = EventOf(ShimEventKind::kStarted, id, lease.attempt);
    event.process = lease.main->process;
    Push(std::move(event));
  }

  void LookWhetherBegun(core::TaskId id, Lease& lease) {
    const auto has_begun = [](const LeaseMember& each) {
      return !each.keeper && HasBegun(each.process) == true;
    };
    if (std::ranges::any_of(lease.members, has_begun)) return Begin(id, lease);
    // A process that keeps the name kWaitsForLease must not hold GPUs forever, so after this time
    // the task counts as started. The limit leaves time for Slurm's task prolog.
    if (lease.begin_by && SteadyClock::now() >= *lease.begin_by) return Begin(id, lease);
    lease.look_at = SteadyClock::now() + lease.look_in;
    lease.look_in = std::min(2 * lease.look_in, kLook);
    SetTimer();
  }

  // Handles a grant that was not adopted in time. A lease whose process is stopped, or that belongs
  // to a job step, loses its grant and waits again; any other lease is withdrawn. A process that
  // was stopped when it got the grant, and has been resumed since, gets the full time again.
  void NotTaken(core::TaskId id, Lease& lease) {
    const bool stopped = IsStopped(lease);
    if (!stopped && lease.stopped) return Grant(id, lease);
    if (!stopped && !lease.key) {
      return Withdraw(id,
                      fmt::format("lease withdrawn: its grant was not adopted within {} s",
                                  std::chrono::duration<double>(options_.adoption_limit).count()),
                      false);
    }
    ShimEvent event = EventOf(ShimEventKind::kLaunchFailed, id, lease.attempt);
    event.text = stopped ? "its process is stopped" : "its process did not adopt the lease in time";
    event.waits = true;
    const LeaseProcess process = lease.members.front().process;
    const std::optional<LeaseKey> key = lease.key;
    leases_.erase(id);
    Watch(id, process, key);
    Push(std::move(event));
  }

  void Withdraw(core::TaskId id, const std::string& why, bool retryable) {
    ShimEvent event = EventOf(ShimEventKind::kLaunchFailed, id, Find(id)->attempt);
    event.text = base::Printable(why, 4000);
    event.retryable = retryable;
    event.ended_before_adoption = Find(id)->found_gone;
    Drop(id);
    Push(std::move(event));
  }

  // A process that has not started its program yet can end only by a signal. So if no signal ended
  // the lease, the program must have started, even if the start was not observed.
  void End(core::TaskId id, const LeaseEnd& end) {
    Lease& lease = *Find(id);
    if (!lease.begun) LookWhetherBegun(id, lease);
    const bool assumed = end.untold ? lease.missed : end.signal == 0;
    if (!lease.begun && assumed) Begin(id, lease);
    if (!lease.begun) {
      return Withdraw(
          id,
          "lease withdrawn: the process that adopted its grant exited before carmad saw it start",
          false);
    }
    // If carmad exits before it has handled this end, the next carmad finds no other record of it.
    if (!end.untold && !ReadEnd(lease.dir)) (void)KeepEnd(lease, end);
    ShimEvent event = EventOf(ShimEventKind::kExited, id, lease.attempt);
    event.exit_code = end.exit_code;
    event.signal = end.signal;
    event.stderr_tail = end.stderr_tail;
    event.untold = end.untold;
    event.ended_before_adoption = lease.found_gone;
    Drop(id);
    Push(std::move(event));
  }

  void Drop(core::TaskId id) {
    leases_.erase(id);
    DropLeftEnd(options_.ends_dir, id);
  }

  // Records the start and the exit status immediately, because they can be queried only briefly
  // after the process has exited.
  void NoteGone(core::TaskId id, Lease& lease) {
    if (lease.adopted && !lease.begun) LookWhetherBegun(id, lease);
    for (const LeaseMember& each : lease.members) {
      if (each.process == lease.main && !lease.status)
        lease.status = base::ExitStatusOf(each.process.process, each.fd);
    }
  }

  void OnGone(core::TaskId id) {
    if (Find(id) == nullptr) return;
    Lease& lease = *Find(id);
    NoteGone(id, lease);
    // Checks each member only once, because a member that exits between two checks would be missed.
    const auto gone = std::ranges::stable_partition(
        lease.members, [](const LeaseMember& each) { return Alive(each.process); });
    if (gone.begin() != lease.members.begin()) {
      for (const LeaseMember& each : gone) {
        if (each.keeper) lease.gone_keepers.push_back(each.process);
      }
      lease.members.erase(gone.begin(), gone.end());
      return;
    }
    if (lease.adopted) return End(id, UnreportedEnd(options_.ends_dir, id, lease));
    if (lease.attempt > 0) {
      return Withdraw(id, "lease withdrawn: the process that requested it has exited", false);
    }
    leases_.erase(id);
    gone_.push_back(id);
    poll_.Wake();
  }

  // The lease could not be ended, because its process now belongs to another user or is stuck in
  // the kernel. CARMA treats the process as foreign from now on.
  void LeaveBehind(core::TaskId id) {
    base::LogWarn("lease_left_behind",
                  {{"task", id}, {"pid", Find(id)->members.front().process.process.pid}});
    End(id, {.untold = true});
  }

  void OnTimer() {
    look_ = false;
    const SteadyClock::time_point now = SteadyClock::now();
    for (const core::TaskId id : Leases()) {
      Lease& lease = *Find(id);
      if (lease.look_at && now >= *lease.look_at) LookWhetherBegun(id, lease);
      if (lease.kill_at && now >= *lease.kill_at) {
        SignalProcesses(lease, SIGKILL, options_.daemon);
        lease.kill_at = now + kKillAgain;
      }
      if (lease.leave_at && now >= *lease.leave_at) {
        LeaveBehind(id);
        continue;
      }
      if (lease.withdraw_at && now >= *lease.withdraw_at) {
        NotTaken(id, lease);
        continue;
      }
      if (std::ranges::all_of(lease.members, [](const LeaseMember& each) { return bool{each.fd}; }))
        continue;
      look_ = true;
      OnGone(id);
    }
    SetTimer();
  }

  void SetTimer() {
    using std::chrono::nanoseconds;
    std::optional<nanoseconds> next;
    const auto sooner = [&next](nanoseconds wait) { next = std::min(next.value_or(wait), wait); };
    const SteadyClock::time_point now = SteadyClock::now();
    for (const auto& [id, lease] : leases_) {
      if (lease.withdraw_at) sooner(*lease.withdraw_at - now);
      if (lease.kill_at) sooner(*lease.kill_at - now);
      if (lease.leave_at) sooner(*lease.leave_at - now);
      if (lease.look_at) sooner(*lease.look_at - now);
    }
    if (look_) sooner(kLook);
    poll_.SetTimer(next);
  }

  std::unique_ptr<Launcher> others_;
  const Options options_;
  Listener listener_;
  LauncherPoll poll_;
  std::vector<core::TaskId> gone_, granted_;                      // to be reported by Poll()
  std::vector<std::pair<core::TaskId, base::ProcessId>> joined_;  // to be reported by Poll()
  std::vector<ShimEvent> pending_;
  bool look_ = false;  // a process without a descriptor must be checked
};

}  // namespace

Result<std::unique_ptr<LeaseLauncher>> LeaseLauncher::Make(std::unique_ptr<Launcher> others,
                                                           Options options) {
  auto launcher = std::make_unique<RealLeaseLauncher>(std::move(others), options);
  CARMA_TRY(launcher->Open());
  return launcher;
}

}  // namespace carma::task
