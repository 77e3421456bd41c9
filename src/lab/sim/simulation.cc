#include "lab/sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/text.h"
#include "lab/sim/reservation_words.h"

namespace carma::sim {
namespace {

constexpr TimerId kArrivalTimer = 0;
constexpr TimerId kAboveTimer = 1;
constexpr TimerId kReservationTimer = 2;
// Reservations of this many days ahead are passed on, and again a day later.
constexpr base::Duration kTold = std::chrono::hours(10 * 24);
constexpr base::Duration kDay = std::chrono::hours(24);
constexpr int kMostStillDays = 400;
// In the published system, the rounds of the daemon's loop and its window begin independently of
// the first submission. The longest round is that of the window.
constexpr double kLongestRoundMs = 92'000;
constexpr int kMostOnGpu = 48;

// Slurm has already chosen the GPUs, so the task starts there at once, without CARMA's checks.
core::PolicyConfig WithoutCarma(core::PolicyConfig policy, Gres gres) {
  policy.mapper = gres == Gres::kGpu ? core::kNeverSharing : "first-fit";
  policy.sm_cap.reset();
  policy.settle = false;
  policy.use_given_memory = false;
  policy.floor_mib = 0;
  policy.plateau_after.reset();
  policy.min_gain.reset();
  policy.max_slowdown.reset();
  policy.require.reset();
  policy.max_tasks_per_gpu = kMostOnGpu;
  policy.order = core::QueueOrder::kFifo;
  policy.limits.clear();
  return policy;
}

// The policy in the simulated cluster: the driver always answers, so no sample is too old.
core::PolicyConfig PolicyOf(const RunOptions& options) {
  core::PolicyConfig policy = options.policy;
  policy.stale_after = std::chrono::hours(24 * 366);
  const bool mps = options.collocation == core::SharingMethod::kMps;
  policy.sharing = mps ? core::SharingMethod::kMps : core::SharingMethod::kStreams;
  if (options.collocation == core::SharingMethod::kAlone) policy.mapper = core::kNeverSharing;
  if (!options.above.WithCarma()) policy = WithoutCarma(std::move(policy), options.above.gres);
  if (options.monitor.mode == MonitorOptions::Mode::kNone) {
    policy.settle = false;
    policy.sm_cap.reset();
  }
  return policy;
}

const MigProfile& ProfileOf(const RunOptions& options) {
  const bool mig = options.collocation == core::SharingMethod::kMig;
  return *FindMigProfile(mig ? options.mig_instances : 1);
}

}  // namespace

Simulation::Simulation(const Cluster& cluster, std::span<const Arrival> arrivals,
                       const RunOptions& options)
    : cluster_(cluster),
      arrivals_(arrivals),
      options_(options),
      mig_(ProfileOf(options)),
      keeps_history_(options.record || options.on_task),
      reservations_(options.reservations),
      lines_(options.policy.order),
      shares_(options.policy.fair),
      counts_(options.above.gres) {
  first_ = start_;
  if (options.noise > 0) {
    base::Rng rng(options.seed);
    first_ += base::Duration(std::llround(rng.Uniform() * kLongestRoundMs));
  }
  last_end_ = first_;
  constexpr std::uint32_t kFirstUid = 1001;
  for (const Arrival& each : arrivals) {
    const auto uid = kFirstUid + static_cast<std::uint32_t>(uids_.size());
    if (!each.user.empty()) uids_.try_emplace(each.user, uid);
  }
  for (std::size_t i = 0; i < reservations_.size(); ++i)
    reservations_[i].id = core::ReservationId{i + 1};
  BuildServers();
  BuildAbove();
  if (options.estimates.method.empty()) return;
  std::vector<core::GpuInfo> gpus;
  for (const Node& node : nodes_) {
    const std::vector<core::GpuInfo>& of_node = node.core.scheduler().GpuInfos();
    gpus.insert(gpus.end(), of_node.begin(), of_node.end());
  }
  appraisals_.emplace(options.estimates, gpus);
}

void Simulation::BuildServers() {
  if (options_.record) recorder_.emplace(cluster_, options_.points_per_gpu, first_);
  const core::PolicyConfig policy = PolicyOf(options_);
  std::vector<std::vector<std::string>> kinds;
  for (const ServerShape& server : cluster_.servers) {
    Node& node = nodes_.emplace_back(policy);
    node.first_gpu = static_cast<std::uint32_t>(gpus_.size());
    std::vector<core::GpuInfo> infos;
    std::vector<std::string> types;
    for (const GpuType& type : server.gpus) {
      types.push_back(type.type);
      node.fastest = std::max(node.fastest, type.relative_speed);
      fastest_ = std::max(fastest_, type.relative_speed);
      types_.push_back(&type);
      devices_.emplace_back(type.power, first_);
      const auto usable_mib = static_cast<std::int64_t>(
          static_cast<double>(type.total_mib - type.reserved_mib) * mig_.memory);
      largest_mib_ = std::max(largest_mib_, usable_mib);
      for (int i = 0; i < mig_.instances; ++i) {
        infos.push_back({.uuid = fmt::format("GPU-{}", gpus_.size()),
                         .type = type.type,
                         .total_mib = usable_mib,
                         .mig = options_.collocation == core::SharingMethod::kMig,
                         .compute = mig_.compute,
                         .speed = type.relative_speed});
        gpus_.emplace_back(usable_mib, start_);
        node_of_.push_back(static_cast<std::uint32_t>(nodes_.size() - 1));
      }
    }
    node.gpu_count = static_cast<std::uint32_t>(gpus_.size()) - node.first_gpu;
    node.idle_gpus = static_cast<int>(node.gpu_count);
    const auto kind = std::find(kinds.begin(), kinds.end(), types);
    node.kind = static_cast<std::uint32_t>(kind - kinds.begin());
    if (kind == kinds.end()) kinds.push_back(std::move(types));
    observed_.resize(gpus_.size());
    launched_.resize(gpus_.size(), 0);
    now_ = start_;
    events_.emplace_back(core::GpusDiscovered{std::move(infos)});
    if (options_.host.promised) {
      events_.emplace_back(
          core::HostDiscovered{{.cpus = static_cast<int>(std::ceil(options_.host.cores))}});
    }
    const auto index = static_cast<std::uint32_t>(nodes_.size() - 1);
    for (std::uint32_t gpu = node.first_gpu; gpu < gpus_.size(); ++gpu) {
      observed_[gpu].sampled = start_;
      events_.emplace_back(SampleAsLast(gpu, start_));
    }
    Tell(index);
  }
}

base::Result<RunResult> Simulation::Run() {
  const auto at = [this](std::size_t i) { return first_ + (arrivals_[i].at - arrivals_[0].at); };
  if (!arrivals_.empty()) timers_.Set(kArrivalTimer, at(0));
  // Ticks never end; the run is over when no task is left.
  SendReservations();
  while (next_arrival_ < arrivals_.size() || !job_of_.empty()) {
    if (still_days_ > kMostStillDays) {
      return base::Fail(
          base::ErrorCode::kInvalid,
          "tasks wait and none has run for a year: reservations leave no time to them");
    }
    if (InVain()) {
      return base::Fail(
          base::ErrorCode::kInvalid,
          fmt::format("nothing gets done: the last {} starts of tasks, until {} after the first "
                      "submission, were ended before anything was saved; turns are too short "
                      "(slots.length), or tasks save too seldom (--model checkpoint, "
                      "checkpoint_on_stop)",
                      starts_in_vain_, base::FormatSpan(now_ - first_)));
    }
    CARMA_CHECK(!timers_.empty(), "tasks wait and nothing will ever happen");
    const TimerQueue::Event event = timers_.Pop();
    now_ = event.when;
    Handle(event.timer);
    Dispatch();
    if (event.timer == kArrivalTimer && next_arrival_ < arrivals_.size()) {
      timers_.Set(kArrivalTimer, at(next_arrival_));
    }
  }
  CheckBooks();
  RunResult result{.totals = Sum()};
  if (recorder_) result.record = recorder_->Finish(last_end_);
  if (appraisals_) result.taught = appraisals_->Taught();
  return result;
}

void Simulation::Handle(TimerId timer) {
  if (timer == kArrivalTimer) return OnArrivals();
  if (timer == kAboveTimer) return OnAbove();
  if (timer == kReservationTimer) return SendReservations();
  if (timer >= JobTimer(0)) return OnJob(timer - JobTimer(0));
  const std::uint32_t node = (timer - 3) / 3;
  if (timer == WakeTimer(node)) return OnWake(node);
  if (timer == TickTimer(node)) return Tick(node);
  OnSamples(node);
}

void Simulation::OnArrivals() {
  std::vector<JobIndex> jobs;
  const base::Duration at = arrivals_[next_arrival_].at;
  while (next_arrival_ < arrivals_.size() && arrivals_[next_arrival_].at == at) {
    jobs.push_back(NewJob(arrivals_[next_arrival_], next_arrival_));
    ++next_arrival_;
  }
  if (HasAbove()) {
    for (const JobIndex each : jobs) EnterAbove(each);
    return;
  }
  if (cluster_.servers.size() == 1) return Submit(0, jobs);
  cluster_queue_.insert(cluster_queue_.end(), jobs.begin(), jobs.end());
}

void Simulation::OnWake(std::uint32_t node) {
  events_.emplace_back(core::WakeUp{});
  Tell(node);
}

void Simulation::SendReservations() {
  if (reservations_.empty()) return;
  now_ = std::max(now_, start_);
  const std::vector<core::ReservedPeriod> periods =
      PeriodsOf(reservations_, first_, now_, now_ + kTold);
  bool still = !job_of_.empty();
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    events_.emplace_back(core::ReservationsChanged{periods});
    Tell(i);
    still = still && nodes_[i].launched == 0;
  }
  still_days_ = still ? still_days_ + 1 : 0;
  if (!periods.empty()) timers_.Set(kReservationTimer, now_ + kDay);
}

void Simulation::OnSamples(std::uint32_t index) {
  Node& node = nodes_[index];
  events_ = std::move(node.on_the_way.front().events);
  node.on_the_way.pop_front();
  if (!node.on_the_way.empty()) {
    timers_.Set(SampleTimer(index), node.on_the_way.front().arrive, TimerQueue::Rank::kObserve);
  }
  Tell(index);
}

void Simulation::OnJob(JobIndex index) {
  Job& job = jobs_[index];
  ++totals_.task_events;
  switch (job.phase) {
    case Phase::kEstimating:
      job.phase = Phase::kWaiting;
      if (IsPatient(job)) timers_.Set(JobTimer(index), now_ + options_.above.wait);
      // Of several servers, the last one that is told may end the task.
      for (const std::uint32_t each : std::vector(ServersOf(job).begin(), ServersOf(job).end())) {
        CatchUp(each);
        events_.emplace_back(EstimateFor(job));
        Tell(each);
      }
      return;
    case Phase::kLoading:
      Allocate(index);
      for (const std::uint32_t each : ServersOf(job)) SetTick(each);
      return;
    case Phase::kComputing:
      return OnComputing(index);
    case Phase::kCrashing:
      return Exit(index, core::ExitKind::kOutOfMemory);
    case Phase::kStopping:
      return Exit(index, core::ExitKind::kFailed);
    case Phase::kWaiting:
      return TakeBack(index);
    case Phase::kAway:
      return EnterAbove(index);
  }
}

void Simulation::Tell(std::uint32_t index) {
  Node& node = nodes_[index];
  while (!events_.empty()) {
    const std::vector<core::Action> actions = node.core.Handle(now_, events_);
    events_.clear();
    for (const core::Action& action : actions) {
      if (const auto* start = std::get_if<core::StartTask>(&action)) {
        Launch(index, *start);
        events_.emplace_back(core::TaskStarted{start->id, start->attempt});
        ++totals_.task_events;
      } else if (const auto* changed = std::get_if<core::TaskChanged>(&action)) {
        OnChanged(index, changed->record);
      } else if (const auto* stop = std::get_if<core::StopTask>(&action)) {
        Stop(*stop);
      } else if (const auto* ask = std::get_if<core::AskToSave>(&action)) {
        AskToSave(*ask);
      }
    }
  }
  if (node.core.wake()) {
    timers_.Set(WakeTimer(index), std::max(*node.core.wake(), now_));
  } else {
    timers_.Clear(WakeTimer(index));
  }
  SetTick(index);
  ++node.told;
  if (options_.above.placing == Placing::kAsked) {
    touched_.push_back(index);
    above_changed_ = true;
  }
  Reopen(index);
}

void Simulation::CheckBooks() const {
  for (const Node& node : nodes_) {
    const std::optional<std::string> wrong = node.core.scheduler().CheckBooks();
    CARMA_CHECK(!wrong, *wrong);
    CARMA_CHECK(node.core.scheduler().Tasks().empty(), "the core holds a task after the run");
    CARMA_CHECK(node.waiting == 0 && node.recovering == 0 && node.launched == 0 &&
                    node.computing == 0 && node.wanted_cores == 0,
                "a server counts a task after the run");
  }
  for (const SimGpu& gpu : gpus_) {
    CARMA_CHECK(gpu.occupants().empty() && gpu.used_mib() == 0, "a GPU is not empty after the run");
  }
  CARMA_CHECK(lines_.empty() && shares_.taking() == 0, "a task stands above the servers");
  for (std::uint32_t i = 0; HasAbove() && i < nodes_.size(); ++i) {
    CARMA_CHECK(counts_.Empty(i) && !nodes_[i].whole, "a server is booked after the run");
  }
  CARMA_CHECK(totals_.tasks == totals_.succeeded + totals_.rejected + totals_.failed,
              "not every task ended once");
}

Totals Simulation::Sum() {
  Totals totals = totals_;
  totals.makespan_s = base::Seconds(last_end_ - first_);
  if (executed_ > 0) {
    const auto count = static_cast<double>(executed_);
    totals.waiting_s = waiting_s_ / count;
    totals.execution_s = execution_s_ / count;
    totals.jct_s = jct_s_ / count;
  }
  if (totals.succeeded > 0) totals.slowdown = slowdown_ / static_cast<double>(totals.succeeded);
  for (SimDevice& device : devices_) {
    device.Advance(last_end_);
    totals.energy_j += device.energy_j();
    totals.sm_active += device.sm_s();
    totals.memory_mib += device.mib_s();
  }
  const double gpu_s = totals.makespan_s * static_cast<double>(devices_.size());
  totals.sm_active = gpu_s > 0 ? totals.sm_active / gpu_s : 0;
  totals.memory_mib = gpu_s > 0 ? totals.memory_mib / gpu_s : 0;
  return totals;
}

}  // namespace carma::sim
