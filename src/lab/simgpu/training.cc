#include "lab/simgpu/training.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <expected>
#include <functional>
#include <limits>

#include "base/clock.h"
#include "base/file.h"
#include "base/process_id.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/try.h"
#include "lab/simgpu/mps_client.h"
#include "lab/simgpu/visible_gpus.h"

namespace carma::simgpu {
namespace {

// Time from allocating parameters and optimizer states to the first batch.
constexpr double kFirstBatchS = 1;
constexpr int kTermExitCode = 128 + SIGTERM;
constexpr int kUsageExitCode = 2;
constexpr double kRoundingS = 1e-6;
constexpr std::string_view kCheckpointHeader = "carma-simtask checkpoint 1\nwork_left_s ";

// Used by signal handlers.
std::atomic<bool> stop_asked = false;
std::atomic<bool> checkpoint_asked = false;
std::atomic<Server*> waiting_server = nullptr;

// SIGIO announces a message from the MPS server. The handler only has to interrupt the sleep; the
// loops then check for messages.
void OnSignal(int number) {
  if (number == SIGTERM) {
    stop_asked = true;
  } else if (number != SIGIO) {
    checkpoint_asked = true;
  }
  // Wakes the task even if the signal arrives after the last check of the flags but before the
  // sleep.
  if (Server* server = waiting_server) server->Poke();
}

void Install(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(number, &action, nullptr);
}

void Say(const std::string& line) {
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

void Complain(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

int Misused(const std::string& why) {
  Complain("simtask: " + why + "\n");
  return kUsageExitCode;
}

template <class T>
T PerGpu(const std::vector<T>& values, std::size_t i) {
  return values[std::min(i, values.size() - 1)];
}

// A point in the training where something happens.
struct Milestone {
  enum Event { kEpoch, kGrow, kFail, kKillSelf, kHang, kFault, kEnd };
  double at;  // share of the work
  Event event;
  int epoch = 0;
};

// Returns the milestones in order; the last one is the end of the training.
std::vector<Milestone> PlanMilestones(const TrainingOptions& options) {
  std::vector<Milestone> plan;
  const int epochs = options.solo_s > 0 ? options.epochs : 0;
  for (int epoch = 1; epoch <= epochs; ++epoch)
    plan.push_back({static_cast<double>(epoch) / epochs, Milestone::kEpoch, epoch});
  if (options.grow_at) plan.push_back({*options.grow_at, Milestone::kGrow});
  if (options.fail_at) plan.push_back({*options.fail_at, Milestone::kFail});
  if (options.kill_self_at) plan.push_back({*options.kill_self_at, Milestone::kKillSelf});
  if (options.hang_at) plan.push_back({*options.hang_at, Milestone::kHang});
  if (options.fault_at) plan.push_back({*options.fault_at, Milestone::kFault});
  plan.push_back({1, Milestone::kEnd});
  std::ranges::stable_sort(plan, {}, &Milestone::at);
  return plan;
}

// One run of the task on its GPUs. If a step fails, its error is the exit code of the process.
class Run {
 public:
  Run(const TrainingOptions& options, Server& server, std::vector<int> gpus)
      : options_(options), server_(server), gpus_(std::move(gpus)) {}

  using Step = std::expected<Unit, int>;
  Step ToTheEnd(double started_s);

 private:
  Step ServeSignals();
  Step ServeMps();
  Step WaitUntil(double until_s);
  Step WaitForWork(double left_s);
  Step JoinMps();
  Step Allocate();
  Step Grow(const std::vector<Share>& more);
  std::optional<Shortage> OverLimit(const std::vector<Share>& more) const;
  Step Unwind();
  Step OutOfMemory(const Shortage& shortage);
  Step CudaFailure(const CudaError& error);
  Step Fault();
  Step Reach(const Milestone& milestone);
  // Returns the value of a call to the simulated server. After an error, prints it and returns exit
  // code 1.
  template <class T>
  static std::expected<T, int> Got(Result<T> result) {
    if (result) return std::move(*result);
    Complain("simtask: lost the simulated GPUs: " + result.error().message + "\n");
    return std::unexpected(1);
  }
  std::vector<Share> Shares(double share_of_memory) const;
  void LoadCheckpoint();
  void SaveCheckpoint();
  void Flood() const;

  const TrainingOptions& options_;
  Server& server_;
  std::vector<int> gpus_;
  std::unique_ptr<MpsClient> mps_;                       // null: without MPS
  std::vector<std::optional<std::int64_t>> limits_mib_;  // limits by MPS, per GPU
  std::unique_ptr<Residency> residency_;
  std::vector<std::int64_t> held_mib_;
  bool unwinding_ = false;  // the run has failed, and later events no longer change how it ends
  bool hanging_ = false;
  double work_s_ = 0;  // work left when the run began
};

Run::Step Run::ServeSignals() {
  if (stop_asked) {
    Complain("simtask: received SIGTERM, stopping\n");
    return std::unexpected(kTermExitCode);
  }
  if (checkpoint_asked.exchange(false)) SaveCheckpoint();
  return ServeMps();
}

Run::Step Run::ServeMps() {
  if (!mps_ || unwinding_) return Unit{};
  const MpsError trouble = mps_->Trouble();
  if (trouble == MpsError::kNone) return Unit{};
  if (hanging_) {
    // The context is gone, but the program would notice this only at its next CUDA call.
    residency_.reset();
    return Unit{};
  }
  return CudaFailure(CudaErrorOf(trouble));
}

Run::Step Run::WaitUntil(double until_s) {
  while (true) {
    const std::uint32_t generation = server_.Generation();
    CARMA_TRY(ServeSignals());
    if (server_.Now() >= until_s) return Unit{};
    server_.Wait(generation, until_s);
  }
}

Run::Step Run::WaitForWork(double left_s) {
  while (true) {
    const Progress progress = CARMA_TRY(Got(residency_->Look()));
    CARMA_TRY(ServeSignals());
    if (progress.evicted) return CudaFailure(CudaErrorOf(MpsError::kClientTerminated));
    if (progress.work_left_s <= left_s + kRoundingS) return Unit{};
    const double span_s = progress.pace > 0 ? (progress.work_left_s - left_s) / progress.pace
                                            : std::numeric_limits<double>::infinity();
    server_.Wait(progress.generation, progress.now_s + span_s);
  }
}

std::vector<Share> Run::Shares(double share_of_memory) const {
  std::vector<Share> shares;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const auto mib = static_cast<double>(PerGpu(options_.memory_mib, i)) * share_of_memory;
    shares.push_back({gpus_[i], static_cast<std::int64_t>(mib), PerGpu(options_.sm_active, i)});
  }
  return shares;
}

// A crash takes time because the interpreter unwinds and the allocator prints its statistics.
Run::Step Run::Unwind() {
  unwinding_ = true;
  if (residency_) CARMA_TRY(Got(residency_->Stop()));
  return WaitUntil(server_.Now() + options_.crash_s);
}

Run::Step Run::OutOfMemory(const Shortage& shortage) {
  const auto device = std::ranges::find(gpus_, shortage.gpu) - gpus_.begin();
  const std::int64_t own_mib = held_mib_[static_cast<std::size_t>(device)];
  CARMA_TRY(Unwind());
  Complain(OomText(options_.framework, {.device = static_cast<int>(device),
                                        .wanted_mib = shortage.wanted_mib,
                                        .free_mib = shortage.free_mib,
                                        .usable_mib = shortage.usable_mib,
                                        .own_mib = own_mib}));
  return std::unexpected(kOomExitCode);
}

Run::Step Run::CudaFailure(const CudaError& error) {
  CARMA_TRY(Unwind());
  Complain(CudaErrorText(options_.framework, error));
  return std::unexpected(kCudaExitCode);
}

Run::Step Run::Fault() {
  if (options_.xid > 0) CARMA_TRY(Got(server_.AnnounceXid(gpus_.front(), options_.xid)));
  if (mps_) mps_->AnnounceFault();
  return CudaFailure(kIllegalAddress);
}

// Joins MPS as the CUDA driver does at the first call. An MPS client's CUDA_VISIBLE_DEVICES selects
// from the server's GPUs.
Run::Step Run::JoinMps() {
  limits_mib_.resize(gpus_.size());
  if (options_.mps_pipes.empty()) return Unit{};
  MpsError refused = MpsError::kNone;
  mps_ = MpsClient::Join(options_.mps_pipes, options_.mps_partition, refused);
  if (refused != MpsError::kNone) return CudaFailure(CudaErrorOf(refused));
  if (!mps_) return Unit{};
  Install(SIGIO, OnSignal);
  mps_->RaiseOnNews(SIGIO);
  const Result<MpsView> view =
      SeeThroughMps(server_.places(), mps_->welcome(), options_.visible_devices.value_or("0"),
                    options_.mps_memory_limits);
  if (!view || view->gpus.empty()) {
    Complain("RuntimeError: No CUDA GPUs are available\n");
    return std::unexpected(kCudaExitCode);
  }
  gpus_ = view->gpus;
  for (const int gpu : gpus_) mps_->Uses(gpu, options_.state_path);
  limits_mib_ = view->limits_mib;
  return Unit{};
}

// Parameters and optimizer states are allocated first, activations with the first batch. Either
// allocation may fail.
Run::Step Run::Allocate() {
  held_mib_.assign(gpus_.size(), 0);
  Arrival arrival;
  arrival.pid = ::getpid();
  arrival.sharing = mps_ ? core::SharingMethod::kMps : core::SharingMethod::kStreams;
  if (mps_) {
    // Identifies the server by its pipe directory, which does not change while the client uses the
    // server.
    arrival.mps_server =
        static_cast<std::uint32_t>(std::hash<std::string>{}(options_.mps_pipes)) | 1;
    // If the SMs are partitioned, the thread percentage has no effect.
    const double asked = options_.mps_partition.empty() ? options_.mps_thread_percentage : 100;
    arrival.sm_cap = std::min(asked, mps_->welcome().thread_percentage) / 100;
  }
  arrival.sensitivity = options_.sensitivity;
  arrival.pressure = options_.pressure;
  arrival.work_s = work_s_;
  arrival.shares = Shares(options_.first_batch_share);
  arrival.group = OwnGroup();
  std::optional<Shortage> shortage = OverLimit(arrival.shares);
  if (shortage) return OutOfMemory(*shortage);
  residency_ = CARMA_TRY(Got(server_.Join(arrival, shortage)));
  if (shortage) return OutOfMemory(*shortage);
  for (std::size_t i = 0; i < gpus_.size(); ++i) held_mib_[i] = arrival.shares[i].memory_mib;
  if (work_s_ > 0) {
    CARMA_TRY(WaitUntil(server_.Now() + std::min(kFirstBatchS, work_s_ / 2)));
  }
  std::vector<Share> rest = Shares(1);
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i].memory_mib -= held_mib_[i];
  return Grow(rest);
}

// An MPS client cannot exceed its memory limit, even if the GPU has more memory free.
std::optional<Shortage> Run::OverLimit(const std::vector<Share>& more) const {
  for (std::size_t i = 0; i < more.size(); ++i) {
    if (!limits_mib_[i]) continue;
    const std::int64_t left_mib = *limits_mib_[i] - held_mib_[i];
    if (more[i].memory_mib > left_mib)
      return Shortage{more[i].gpu, more[i].memory_mib, left_mib, *limits_mib_[i]};
  }
  return std::nullopt;
}

Run::Step Run::Grow(const std::vector<Share>& more) {
  if (const auto shortage = OverLimit(more)) return OutOfMemory(*shortage);
  const std::optional<Shortage> shortage = CARMA_TRY(Got(residency_->Grow(more)));
  if (shortage) return OutOfMemory(*shortage);
  for (std::size_t i = 0; i < more.size(); ++i) held_mib_[i] += more[i].memory_mib;
  return Unit{};
}

Run::Step Run::Reach(const Milestone& milestone) {
  switch (milestone.event) {
    case Milestone::kEpoch:
      Say(fmt::format("epoch {}/{} done\n", milestone.epoch, options_.epochs));
      return Unit{};
    case Milestone::kGrow: {
      std::vector<Share> more;
      for (const int gpu : gpus_) more.push_back({gpu, options_.grow_mib, 0});
      return Grow(more);
    }
    case Milestone::kFail:
      Complain(PlainTraceback());
      return std::unexpected(options_.exit_code);
    case Milestone::kKillSelf:
      ::raise(options_.signal);
      return std::unexpected(128 + options_.signal);
    case Milestone::kHang:
      // A deadlocked task computes nothing but keeps its memory.
      hanging_ = true;
      CARMA_TRY(Got(residency_->Stop()));
      return WaitUntil(std::numeric_limits<double>::infinity());
    case Milestone::kFault:
      return Fault();
    case Milestone::kEnd:
      break;
  }
  Say("training finished\n");
  return std::unexpected(0);
}

void Run::LoadCheckpoint() {
  work_s_ = options_.solo_s;
  if (options_.checkpoint_file.empty()) return;
  const auto text = base::ReadFile(options_.checkpoint_file, 1'000);
  if (!text || !text->starts_with(kCheckpointHeader)) return;
  const auto left = base::ParseDouble(base::Trim(text->substr(kCheckpointHeader.size())));
  if (!left || *left < 0 || *left > options_.solo_s) return;
  work_s_ = *left;
  Say(fmt::format("resumed from {} at {:.1f} %\n", options_.checkpoint_file,
                  100 * (1 - work_s_ / options_.solo_s)));
}

void Run::SaveCheckpoint() {
  double left_s = work_s_;
  if (residency_) {
    if (const Result<Progress> progress = residency_->Look()) left_s = progress->work_left_s;
  }
  if (!options_.checkpoint_file.empty()) {
    const auto saved = base::WriteFileAtomic(options_.checkpoint_file,
                                             fmt::format("{}{:.6f}\n", kCheckpointHeader, left_s));
    if (!saved) return Complain("simtask: checkpoint: " + saved.error().message + "\n");
  }
  Say("checkpoint saved\n");
}

void Run::Flood() const {
  const std::string line(99, '#');
  std::string block;
  while (block.size() < 65'536) block += line + "\n";
  for (std::int64_t left = options_.log_flood_bytes; left > 0 && !stop_asked;) {
    const auto n = std::min<std::int64_t>(left, static_cast<std::int64_t>(block.size()));
    if (std::fwrite(block.data(), 1, static_cast<std::size_t>(n), stdout) == 0) return;
    left -= n;
  }
  std::fflush(stdout);
}

Run::Step Run::ToTheEnd(double started_s) {
  LoadCheckpoint();
  Say(fmt::format("loading: {} GPU(s), {:.0f} s of work\n", gpus_.size(), work_s_));
  CARMA_TRY(WaitUntil(started_s + options_.load_s));
  CARMA_TRY(JoinMps());
  CARMA_TRY(Allocate());
  if (options_.warn_oom) Complain(HarmlessOomWarning(PerGpu(options_.memory_mib, 0)));
  if (options_.tell_memory) {
    const MemoryView seen = CARMA_TRY(Got(server_.MemoryOf(gpus_.front(), OwnGroup())));
    Say(fmt::format("memory: {} of {} MiB free\n", seen.free_mib, seen.total_mib));
  }
  Flood();
  const double done = options_.solo_s > 0 ? 1 - work_s_ / options_.solo_s : 0;
  for (const Milestone& milestone : PlanMilestones(options_)) {
    // A resumed run skips the milestones before its checkpoint, including failures, but repeats
    // allocations.
    const bool past = milestone.at < done;
    if (past && milestone.event != Milestone::kGrow) continue;
    CARMA_TRY(WaitForWork(options_.solo_s * (1 - milestone.at)));
    CARMA_TRY(Reach(milestone));
  }
  return Unit{};
}

int RunOn(const TrainingOptions& options, Server& server, double started_s) {
  const auto gpus = VisibleGpus(server.places(), options.visible_devices.value_or("0"));
  if (!gpus) return Misused("CUDA_VISIBLE_DEVICES: " + gpus.error().message);
  if (gpus->empty()) {
    Complain("RuntimeError: No CUDA GPUs are available\n");
    return 1;
  }
  waiting_server = &server;
  Install(SIGTERM, options.ignore_term ? SIG_IGN : OnSignal);
  if (options.checkpoint_signal > 0) Install(options.checkpoint_signal, OnSignal);
  const auto ended = Run(options, server, *gpus).ToTheEnd(started_s);
  waiting_server = nullptr;
  return ended ? 0 : ended.error();
}

// Runs the task in a grandchild, in a new session. waitpid() does not work for a grandchild, so the
// grandchild sends its exit code through a pipe. If the pipe closes without a code, the grandchild
// was killed.
int RunDetached(const TrainingOptions& options, Server& server, double started_s) {
  Result<base::Pipe> pipe = base::MakePipe();
  if (!pipe) return 1;
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    const int code = RunOn(options, server, started_s);
    std::fflush(nullptr);
    (void)!::write(pipe->write.get(), &code, sizeof code);
    ::_exit(code);
  }
  pipe->write.reset();
  ::waitpid(child, nullptr, 0);
  Install(SIGTERM, options.ignore_term ? SIG_IGN : OnSignal);
  int code = 0;
  ssize_t n = 0;
  do {
    n = ::read(pipe->read.get(), &code, sizeof code);
  } while (n < 0 && errno == EINTR && !stop_asked);
  if (stop_asked) return kTermExitCode;  // the grandchild lives on, as intended
  return n == sizeof code ? code : 1;
}

}  // namespace

std::int64_t ProcessStartNs() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  // The CPU time of a young process is close to its age. The error is at most one tick, because the
  // result is clamped to the kernel's coarse start time.
  const std::int64_t guess =
      base::BootTimeNs() - (static_cast<std::int64_t>(used.tv_sec) * 1'000'000'000 + used.tv_nsec);
  const std::int64_t tick_ns = 1'000'000'000 / ::sysconf(_SC_CLK_TCK);
  const auto coarse = static_cast<std::int64_t>(base::SelfProcess().start_ticks) * tick_ns;
  return coarse == 0 ? guess : std::clamp(guess, coarse, coarse + tick_ns);
}

int RunTraining(const TrainingOptions& options) {
  // By default, timers may fire up to 50 us late, which matters on a fast simulated server.
  ::prctl(PR_SET_TIMERSLACK, 1);
  const std::int64_t start_ns = ProcessStartNs();
  if (options.state_path.empty()) {
    return Misused(
        std::string(kStateVariable) +
        " is not set: it must name the file of a simulated GPU server (carma-simgpu create)");
  }
  if (options.memory_mib.empty() || options.sm_active.empty())
    return Misused("--memory-mib and --sm-active are required");
  const auto server = Server::Attach(options.state_path);
  if (!server) return Misused(server.error().message);
  const base::ClockOrigin& clock = (*server)->clock();
  const double started_s =
      static_cast<double>(start_ns - clock.origin_boot_ns) / 1e9 * clock.time_scale;
  return options.double_fork ? RunDetached(options, **server, started_s)
                             : RunOn(options, **server, started_s);
}

}  // namespace carma::simgpu
