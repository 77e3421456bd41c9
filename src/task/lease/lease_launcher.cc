#include "task/lease/lease_launcher.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/pidfd.h"
#include "base/signal_name.h"
#include "base/text.h"
#include "base/timer_fd.h"
#include "base/unique_fd.h"
#include "task/process/process_tree.h"

namespace carma::task {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Json;
using base::Result;
using base::UniqueFd;
using base::Unit;
using SteadyClock = std::chrono::steady_clock;

constexpr char kLeaseFile[] = "lease.json";
constexpr char kAdoptedFile[] = "adopted";
constexpr char kEndFile[] = "end.json";
constexpr std::size_t kMaxFile = 4 << 20;
constexpr std::size_t kMaxEventsPerPoll = 256;
constexpr std::chrono::seconds kKillAgain{1};
// Without a descriptor for it a process is looked at so often.
constexpr std::chrono::milliseconds kLook{200};

enum class Source : std::uint64_t { kProcess, kOthers, kWake, kTimer };
constexpr std::uint64_t kSources = 4;

struct Lease {
  LeaseProcess process;  // that waits, then the one that has adopted it
  UniqueFd process_fd;   // empty: none could be had
  int attempt = 0;       // 0: it waits
  std::string dir;
  std::uint32_t uid = 0;  // of its owner
  LeaseLauncher::Environment environment;
  base::Duration grace{};
  std::string checkpoint_signal;
  bool adopted = false;
  std::optional<SteadyClock::time_point> withdraw_at;
  std::optional<SteadyClock::time_point> kill_at;
};

LeaseLauncher::Environment EnvironmentOf(const LaunchOrder& order) {
  LeaseLauncher::Environment environment = order.extra_environment;
  environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  environment["CUDA_VISIBLE_DEVICES"] = base::Join(order.gpu_uuids, ",");
  environment["CARMA_TASK_ID"] = fmt::format("{}", order.id);
  environment["CARMA_ATTEMPT"] = fmt::format("{}", order.attempt);
  environment["CARMA_TASK_NAME"] = order.spec.name;
  if (order.host.cpus > 0) environment["CARMA_CPUS"] = fmt::format("{}", order.host.cpus);
  return environment;
}

std::string TextOfGrant(const Lease& lease) {
  return base::DumpJson({{"process", TextOf(lease.process)},
                         {"uid", lease.uid},
                         {"environment", lease.environment},
                         {"grace_ms", lease.grace.count()},
                         {"checkpoint_signal", lease.checkpoint_signal}});
}

// Empty: the folder is that of another attempt.
std::optional<Lease> ReadGrant(const std::string& dir) {
  const Result<std::string> text = base::ReadFile(dir + "/" + kLeaseFile, kMaxFile);
  const Result<Json> json = text ? base::ParseJson(*text) : std::unexpected(text.error());
  if (!json) return std::nullopt;
  base::JsonReader in(*json, "");
  Lease lease;
  std::string process;
  std::int64_t grace_ms = 0;
  in.Get("process", process, 256);
  std::int64_t uid = 0;
  in.Get("uid", uid, 0, UINT32_MAX);
  in.Get("grace_ms", grace_ms, 0, INT64_MAX);
  in.Get("checkpoint_signal", lease.checkpoint_signal, 16);
  const Json* environment = in.Raw("environment");
  const std::optional<LeaseProcess> known = ParseLeaseProcess(process);
  if (in.error() || !known || environment == nullptr || !environment->is_object())
    return std::nullopt;
  for (const auto& [name, value] : environment->items()) {
    if (value.is_string()) lease.environment[name] = value.get<std::string>();
  }
  lease.process = *known;
  lease.uid = static_cast<std::uint32_t>(uid);
  lease.grace = base::Duration(grace_ms);
  lease.dir = dir;
  return lease;
}

std::optional<LeaseEnd> ReadEnd(const std::string& dir) {
  const Result<std::string> text = base::ReadFile(dir + "/" + kEndFile, kMaxFile);
  const Result<Json> json = text ? base::ParseJson(*text) : std::unexpected(text.error());
  if (!json) return std::nullopt;
  base::JsonReader in(*json, "");
  LeaseEnd end;
  std::int64_t code = 0, signal = 0;
  in.Get("exit_code", code, 0, 255);
  in.Get("signal", signal, 0, 64);
  in.Get("stderr_tail", end.stderr_tail, kMaxFile);
  if (in.error()) return std::nullopt;
  end.exit_code = static_cast<int>(code);
  end.signal = static_cast<int>(signal);
  return end;
}

class RealLeaseLauncher final : public LeaseLauncher {
 public:
  RealLeaseLauncher(std::unique_ptr<Launcher> others, Options options)
      : others_(std::move(others)), options_(options) {}

  Result<Unit> Open() {
    constexpr const char* kDoing = "preparing to watch leases";
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) return base::FailErrno(errno, kDoing);
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return base::FailErrno(errno, kDoing);
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer_) return base::FailErrno(errno, kDoing);
    if (!Register(wake_.get(), Source::kWake) || !Register(timer_.get(), Source::kTimer) ||
        (others_->PollFd() >= 0 && !Register(others_->PollFd(), Source::kOthers)))
      return base::FailErrno(errno, kDoing);
    return Unit{};
  }

  // ---- what is asked of leases ----

  void Listen(Listener listener) override { listener_ = std::move(listener); }

  void Watch(core::TaskId id, const LeaseProcess& process) override {
    if (leases_.contains(id)) return;
    Lease& lease = leases_[id];
    lease.process = process;
    WatchProcess(id, lease);
  }

  bool Granted(core::TaskId id) const override {
    const auto found = leases_.find(id);
    return found != leases_.end() && found->second.attempt > 0 && !found->second.adopted;
  }

  bool Adopted(core::TaskId id) const override {
    const auto found = leases_.find(id);
    return found != leases_.end() && found->second.adopted;
  }

  std::vector<core::TaskId> Leases() const override {
    std::vector<core::TaskId> ids;
    for (const auto& [id, lease] : leases_) ids.push_back(id);
    return ids;
  }

  Result<Environment> AdoptLease(core::TaskId id, const LeaseProcess& process) override {
    const auto found = leases_.find(id);
    if (found == leases_.end() || found->second.attempt == 0)
      return Fail(ErrorCode::kConflict, fmt::format("lease {} is not granted", id));
    Lease& lease = found->second;
    if (lease.adopted && lease.process == process) return lease.environment;
    if (lease.adopted) {
      return Fail(ErrorCode::kConflict,
                  fmt::format("lease {} was adopted by process {}", id, lease.process.process.pid));
    }
    if (!Alive(process)) {
      return Fail(ErrorCode::kConflict, fmt::format("process {} has ended", process.process.pid));
    }
    const Result<Unit> kept =
        base::WriteFileAtomic(lease.dir + "/" + kAdoptedFile, TextOf(process), 0600);
    if (!kept) return base::Wrap(kept.error(), "keeping who adopts a lease");
    TakeAdopted(id, lease, process);
    return lease.environment;
  }

  Result<Unit> EndLease(core::TaskId id, const LeaseEnd& end) override {
    const auto found = leases_.find(id);
    if (found == leases_.end() || !found->second.adopted)
      return Fail(ErrorCode::kConflict, fmt::format("lease {} is not adopted", id));
    const std::string tail = base::IsUtf8(end.stderr_tail) ? end.stderr_tail : "";
    const Result<Unit> kept = base::WriteFileAtomic(
        found->second.dir + "/" + kEndFile,
        base::DumpJson(
            {{"exit_code", end.exit_code}, {"signal", end.signal}, {"stderr_tail", tail}}),
        0600);
    if (!kept) return base::Wrap(kept.error(), "keeping how a lease ended");
    End(id, end);
    return Unit{};
  }

  // ---- Launcher ----

  void Start(LaunchOrder order) override {
    const std::optional<LeaseProcess> process =
        order.spec.lease ? ParseLeaseProcess(*order.spec.lease) : std::nullopt;
    if (!process) return others_->Start(std::move(order));
    Watch(order.id, *process);
    Lease& lease = leases_.at(order.id);
    if (lease.attempt == order.attempt) return;
    lease.attempt = order.attempt;
    lease.dir = order.attempt_dir;
    lease.uid = order.uid;
    lease.environment = EnvironmentOf(order);
    lease.grace = order.kill_grace;
    lease.checkpoint_signal = order.checkpoint_signal;
    Result<Unit> kept = base::MakeDirs(lease.dir, 0711);
    if (kept) kept = base::WriteFileAtomic(lease.dir + "/" + kLeaseFile, TextOfGrant(lease), 0600);
    if (!kept) return Withdraw(order.id, kept.error().message, /*retryable=*/true);
    Grant(order.id, lease);
  }

  void Stop(core::TaskId id, int attempt) override {
    Lease* lease = Find(id, attempt);
    if (lease == nullptr) return others_->Stop(id, attempt);
    if (!lease->adopted) return Withdraw(id, "withdrawn before it was adopted", false);
    if (lease->kill_at) return;
    Signal(*lease, SIGTERM);
    lease->kill_at = SteadyClock::now() + lease->grace;
    SetTimer();
  }

  void Confine(core::TaskId id, int attempt, const std::string& cores) override {
    if (Find(id, attempt) == nullptr) others_->Confine(id, attempt, cores);
  }

  void Warn(core::TaskId id, int attempt) override {
    if (Find(id, attempt) == nullptr) others_->Warn(id, attempt);
  }

  void AskToSave(core::TaskId id, int attempt) override {
    const Lease* lease = Find(id, attempt);
    if (lease == nullptr) return others_->AskToSave(id, attempt);
    const std::optional<int> number = base::SignalNumber(lease->checkpoint_signal);
    if (!lease->adopted || !number) return;
    for (const base::ProcessId& each : Tree(*lease)) {
      if (MaySignal(lease->uid, each.pid) && Catches(each, *number)) Tell(each, {*number});
    }
  }

  // A restarted daemon: everything that it answers next was answered like that before.
  void Adopt(const KnownAttempt& attempt) override {
    std::optional<Lease> known = ReadGrant(attempt.dir);
    if (!known) return others_->Adopt(attempt);
    const core::TaskId id = attempt.id;
    known->attempt = attempt.number;
    Lease& lease = leases_[id] = *std::move(known);
    const Result<std::string> adopted = base::ReadFile(lease.dir + "/" + kAdoptedFile, kMaxFile);
    const std::optional<LeaseProcess> by = adopted ? ParseLeaseProcess(*adopted) : std::nullopt;
    if (by) TakeAdopted(id, lease, *by);
    if (const std::optional<LeaseEnd> end = ReadEnd(lease.dir)) return End(id, *end);
    if (by) return;
    WatchProcess(id, lease);
    Grant(id, lease);
  }

  void Forget(core::TaskId id, int attempt, const std::string& attempt_dir) override {
    if (Find(id, attempt) == nullptr) others_->Forget(id, attempt, attempt_dir);
  }

  int PollFd() const override { return epoll_.get(); }

  void Poll(const Sink& sink) override {
    std::array<epoll_event, kMaxEventsPerPoll> ready{};
    const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = ready[static_cast<std::size_t>(i)].data.u64;
      const auto source = static_cast<Source>(key % kSources);
      if (source == Source::kTimer) OnTimer();
      if (source == Source::kProcess) OnGone(core::TaskId{key / kSources});
    }
    std::uint64_t wakes = 0;
    (void)!::read(wake_.get(), &wakes, sizeof wakes);
    for (const core::TaskId id : std::exchange(gone_, {})) {
      if (listener_.gone) listener_.gone(id);
    }
    for (const core::TaskId id : std::exchange(granted_, {})) {
      if (listener_.granted) listener_.granted(id);
    }
    for (const ShimEvent& event : std::exchange(pending_, {})) sink(event);
    others_->Poll(sink);
  }

 private:
  bool Register(int fd, Source source, core::TaskId id = core::TaskId{}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = core::Number(id) * kSources + static_cast<std::uint64_t>(source);
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  Lease* Find(core::TaskId id, int attempt) {
    const auto found = leases_.find(id);
    return found == leases_.end() || found->second.attempt != attempt ? nullptr : &found->second;
  }

  void Wake() {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  void Push(ShimEvent event) {
    pending_.push_back(std::move(event));
    Wake();
  }

  // The descriptor is of whoever has the number when it is made: only one that is that very process
  // afterwards is meant.
  void WatchProcess(core::TaskId id, Lease& lease) {
    lease.process_fd = base::OpenPidfd(lease.process.process.pid);
    if (!Alive(lease.process)) {
      lease.process_fd.reset();
      return LookSoon();
    }
    if (lease.process_fd && !Register(lease.process_fd.get(), Source::kProcess, id))
      lease.process_fd.reset();
    if (!lease.process_fd) LookSoon();
  }

  void LookSoon() {
    look_ = true;
    SetTimer();
  }

  void Grant(core::TaskId id, Lease& lease) {
    lease.withdraw_at = SteadyClock::now() + options_.adoption_limit;
    granted_.push_back(id);
    Wake();
    SetTimer();
  }

  void TakeAdopted(core::TaskId id, Lease& lease, const LeaseProcess& process) {
    const bool another = !(lease.process == process) || !lease.process_fd;
    lease.process = process;
    lease.adopted = true;
    lease.withdraw_at.reset();
    if (another) WatchProcess(id, lease);
    ShimEvent event;
    event.kind = ShimEventKind::kStarted;
    event.id = id;
    event.attempt = lease.attempt;
    event.process = process.process;
    Push(std::move(event));
  }

  void Withdraw(core::TaskId id, const std::string& why, bool retryable) {
    ShimEvent event;
    event.kind = ShimEventKind::kLaunchFailed;
    event.id = id;
    event.attempt = leases_.at(id).attempt;
    event.text = base::Printable(why, 4000);
    event.retryable = retryable;
    leases_.erase(id);
    Push(std::move(event));
  }

  void End(core::TaskId id, const LeaseEnd& end) {
    ShimEvent event;
    event.kind = ShimEventKind::kExited;
    event.id = id;
    event.attempt = leases_.at(id).attempt;
    event.exit_code = end.exit_code;
    event.signal = end.signal;
    event.stderr_tail = end.stderr_tail;
    leases_.erase(id);
    Push(std::move(event));
  }

  void OnGone(core::TaskId id) {
    const auto found = leases_.find(id);
    if (found == leases_.end() || Alive(found->second.process)) return;
    const Lease& lease = found->second;
    // Its exit code is known to its parent alone.
    if (lease.adopted) return End(id, {});
    if (lease.attempt > 0)
      return Withdraw(id, "the process that asked for the lease has ended", false);
    leases_.erase(found);
    gone_.push_back(id);
    Wake();
  }

  static std::vector<base::ProcessId> Tree(const Lease& lease) {
    std::vector<base::ProcessId> tree{lease.process.process};
    for (const base::ProcessStat& each : Descendants(lease.process.process.pid))
      tree.push_back(each.id);
    return tree;
  }

  // With our rights, so only what its owner may signal himself: his process may have started one of
  // somebody else's.
  static void Signal(const Lease& lease, int number) {
    for (const base::ProcessId& each : Tree(lease)) {
      if (MaySignal(lease.uid, each.pid)) Tell(each, {number});
    }
  }

  static bool MaySignal(std::uint32_t uid, pid_t pid) {
    struct stat info {};
    return uid == 0 ||
           (::stat(fmt::format("/proc/{}", pid).c_str(), &info) == 0 && info.st_uid == uid);
  }

  void OnTimer() {
    std::uint64_t expirations = 0;
    (void)!::read(timer_.get(), &expirations, sizeof expirations);
    look_ = false;
    const SteadyClock::time_point now = SteadyClock::now();
    std::vector<core::TaskId> ids = Leases();
    for (const core::TaskId id : ids) {
      Lease& lease = leases_.at(id);
      if (lease.kill_at && now >= *lease.kill_at) {
        Signal(lease, SIGKILL);
        lease.kill_at = now + kKillAgain;
      }
      if (lease.withdraw_at && now >= *lease.withdraw_at) {
        Withdraw(id,
                 fmt::format("not adopted within {} s",
                             std::chrono::duration<double>(options_.adoption_limit).count()),
                 false);
        continue;
      }
      if (lease.process_fd) continue;
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
    }
    if (look_) sooner(kLook);
    base::SetTimer(timer_.get(), next);
  }

  std::unique_ptr<Launcher> others_;
  const Options options_;
  Listener listener_;
  UniqueFd epoll_, wake_, timer_;
  std::map<core::TaskId, Lease> leases_;
  std::vector<core::TaskId> gone_, granted_;  // to be told by Poll()
  std::vector<ShimEvent> pending_;
  bool look_ = false;  // a process that no descriptor tells about is to be looked at
};

}  // namespace

Result<std::unique_ptr<LeaseLauncher>> LeaseLauncher::Make(std::unique_ptr<Launcher> others,
                                                           Options options) {
  auto launcher = std::make_unique<RealLeaseLauncher>(std::move(others), options);
  if (Result<Unit> opened = launcher->Open(); !opened) return std::unexpected(opened.error());
  return launcher;
}

}  // namespace carma::task
