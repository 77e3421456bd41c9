#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>

#include "base/rng.h"
#include "sim/chance.h"

namespace carma::sim {
namespace {

constexpr TimerId kArrivalTimer = 0;
// As published the daemon's loop and its window come round at moments that have nothing to do with
// the first submission; the longest of its rounds is that of the window.
constexpr double kLongestRoundMs = 92'000;

// The policy as the simulated cluster has it: no driver ever falls silent, so no sample is too old.
core::PolicyConfig PolicyOf(const RunOptions& options) {
  core::PolicyConfig policy = options.policy;
  policy.stale_after = std::chrono::hours(24 * 366);
  if (options.collocation == core::SharingMethod::kAlone) policy.mapper = core::kNeverSharing;
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
      keeps_history_(options.record || options.on_task) {
  first_ = start_;
  if (options.noise > 0) {
    base::Rng rng(options.seed);
    first_ += base::Duration(std::llround(rng.Uniform() * kLongestRoundMs));
  }
  last_end_ = first_;
  BuildServers();
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
      types_.push_back(&type);
      devices_.emplace_back(type.power, first_);
      const auto usable_mib = static_cast<std::int64_t>(
          static_cast<double>(type.total_mib - type.reserved_mib) * mig_.memory);
      largest_mib_ = std::max(largest_mib_, usable_mib);
      for (int i = 0; i < mig_.instances; ++i) {
        infos.push_back({.uuid = fmt::format("GPU-{}", gpus_.size()),
                         .type = type.type,
                         .total_mib = usable_mib,
                         .mig = options_.collocation == core::SharingMethod::kMig});
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
    const auto index = static_cast<std::uint32_t>(nodes_.size() - 1);
    for (std::uint32_t gpu = node.first_gpu; gpu < gpus_.size(); ++gpu) {
      observed_[gpu].sampled = start_;
      events_.emplace_back(SampleAsLast(gpu, start_));
    }
    Tell(index);
  }
}

RunResult Simulation::Run() {
  const auto at = [this](std::size_t i) { return first_ + (arrivals_[i].at - arrivals_[0].at); };
  if (!arrivals_.empty()) timers_.Set(kArrivalTimer, at(0));
  // Ticks alone go on for ever; the run is over when nobody is left.
  while (next_arrival_ < arrivals_.size() || !job_of_.empty()) {
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
  if (timer >= JobTimer(0)) return OnJob(timer - JobTimer(0));
  const std::uint32_t node = (timer - 1) / 3;
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
  if (cluster_.servers.size() == 1) return Submit(0, jobs);
  cluster_queue_.insert(cluster_queue_.end(), jobs.begin(), jobs.end());
}

void Simulation::OnWake(std::uint32_t node) {
  events_.emplace_back(core::WakeUp{});
  Tell(node);
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
      CatchUp(job.node);
      events_.emplace_back(core::EstimateReady{job.id, EstimateOf(job)});
      return Tell(job.node);
    case Phase::kLoading:
      Allocate(index);
      return SetTick(job.node);
    case Phase::kComputing:
      return OnComputing(index);
    case Phase::kCrashing:
      return Exit(index, core::ExitKind::kOutOfMemory);
    case Phase::kStopping:
      return Exit(index, core::ExitKind::kFailed);
    case Phase::kWaiting:
      break;
  }
  CARMA_CHECK(false, "a waiting task has no event of its own");
}

Simulation::JobIndex Simulation::NewJob(const Arrival& arrival, std::size_t number) {
  JobIndex index = 0;
  if (free_jobs_.empty()) {
    index = static_cast<JobIndex>(jobs_.size());
    jobs_.emplace_back();
  } else {
    index = free_jobs_.back();
    free_jobs_.pop_back();
    jobs_[index] = Job{};
  }
  Job& job = jobs_[index];
  job.id = core::TaskId{number + 1};
  job.arrival = &arrival;
  job.submitted = now_;
  job.solo_s = arrival.solo_s.value_or(arrival.workload->solo_s);
  if (options_.noise > 0) {
    job.solo_s *= std::exp(options_.noise * Chance(options_.seed, Draw::kNoise, number).Normal());
  }
  job_of_.emplace(core::Number(job.id), index);
  ++totals_.tasks;
  return index;
}

void Simulation::Submit(std::uint32_t index, std::span<const JobIndex> jobs) {
  CatchUp(index);
  const bool at_once = options_.estimates.takes == base::Duration{0};
  for (const JobIndex each : jobs) {
    Job& job = jobs_[each];
    job.node = index;
    events_.emplace_back(core::TaskSubmitted{job.id, RequestOf(job)});
    if (at_once) {
      events_.emplace_back(core::EstimateReady{job.id, EstimateOf(job)});
    } else {
      job.phase = Phase::kEstimating;
      timers_.Set(JobTimer(each), now_ + options_.estimates.takes);
    }
  }
  totals_.task_events += static_cast<std::int64_t>((at_once ? 2 : 1) * jobs.size());
  nodes_[index].waiting += static_cast<int>(jobs.size());
  Tell(index);
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
      }
    }
  }
  if (node.core.wake()) {
    timers_.Set(WakeTimer(index), std::max(*node.core.wake(), now_));
  } else {
    timers_.Clear(WakeTimer(index));
  }
  SetTick(index);
  Reopen(index);
}

void Simulation::Launch(std::uint32_t index, const core::StartTask& start) {
  const JobIndex job_index = job_of_.at(core::Number(start.id));
  Job& job = jobs_[job_index];
  Node& node = nodes_[index];
  --node.waiting;
  if (job.recovering) --node.recovering;
  job.recovering = false;
  ++node.launched;
  job.phase = Phase::kLoading;
  job.attempt = start.attempt;
  ++job.attempts;
  ++totals_.attempts;
  job.launched = now_;
  job.work_s = job.solo_s - job.saved_s;
  job.slot_ends.reset();
  if (options_.time_slot > base::Duration{0}) job.slot_ends = now_ + options_.time_slot;
  job.gpus.clear();
  for (const core::Placement& placement : start.placement) {
    const std::uint32_t gpu = node.first_gpu + core::Number(placement.gpu);
    job.gpus.push_back(gpu);
    ++observed_[gpu].unseen;
    if (launched_[gpu]++ == 0) --node.idle_gpus;
  }
  job.alone = start.alone;
  job.limit_mib = MpsLimitOf(start);
  if (job.limit_mib > 0) {
    events_.emplace_back(core::SharingChosen{
        start.id,
        start.attempt,
        {.method = core::SharingMethod::kMps, .memory_limit_mib = job.limit_mib}});
  }
  // Time at which it fails by itself, of the work done.
  job.fails_after_s = std::numeric_limits<double>::infinity();
  if (options_.failures.per_hour > 0) {
    base::Rng rng = Chance(options_.seed, Draw::kFailure,
                           core::Number(job.id) * 1'000 + static_cast<std::uint64_t>(job.attempt));
    job.fails_after_s = rng.Exponential(3600.0 / options_.failures.per_hour);
  }
  timers_.Set(JobTimer(job_index), now_ + options_.memory.load);
}

// As the daemon tells the MPS server (daemon/starts.cc).
std::int64_t Simulation::MpsLimitOf(const core::StartTask& start) const {
  const core::Placement& at = start.placement.front();
  const bool client = options_.collocation == core::SharingMethod::kMps && !start.alone;
  if (!options_.mps_memory_limit || !client || at.claim_mib <= 0) return 0;
  const std::uint32_t gpu = jobs_[job_of_.at(core::Number(start.id))].gpus.front();
  return std::min(at.claim_mib + options_.policy.margin_mib, gpus_[gpu].usable_mib());
}

void Simulation::OnChanged(std::uint32_t index, const core::TaskRecord& record) {
  if (appraisals_ && !core::HoldsGpus(record.state)) Learn(record);
  if (core::IsFinal(record.state)) {
    return Retire(job_of_.at(core::Number(record.id)), record.state);
  }
  if (record.state != core::TaskState::kQueued || record.queue != core::QueueKind::kRecovery)
    return;
  Job& job = jobs_[job_of_.at(core::Number(record.id))];
  if (!job.recovering) ++nodes_[index].recovering;
  job.recovering = true;
}

void Simulation::Exit(JobIndex index, core::ExitKind kind) {
  Job& job = jobs_[index];
  Node& node = nodes_[job.node];
  const bool stopped = job.phase == Phase::kStopping;
  if (job.holds) {
    Leave(index);
  } else {
    for (const std::uint32_t gpu : job.gpus) --observed_[gpu].unseen;
  }
  for (const std::uint32_t gpu : job.gpus) {
    if (--launched_[gpu] == 0) ++node.idle_gpus;
  }
  --node.launched;
  timers_.Clear(JobTimer(index));
  job.executed_s += base::Seconds(now_ - job.launched);
  if (kind == core::ExitKind::kSuccess) {
    const double alone_s = AloneS(job);
    slowdown_ += alone_s > 0 ? base::Seconds(now_ - job.allocated) / alone_s : 1.0;
    ++totals_.succeeded;
  }
  if (keeps_history_) {
    report::Attempt attempt{.started = job.launched, .ended = now_};
    attempt.end = stopped                                ? report::AttemptEnd::kStopped
                  : kind == core::ExitKind::kSuccess     ? report::AttemptEnd::kSucceeded
                  : kind == core::ExitKind::kOutOfMemory ? report::AttemptEnd::kOutOfMemory
                                                         : report::AttemptEnd::kFailed;
    for (const std::uint32_t gpu : job.gpus)
      attempt.gpus.push_back(static_cast<int>(gpu) / mig_.instances);
    std::sort(attempt.gpus.begin(), attempt.gpus.end());
    attempt.gpus.erase(std::unique(attempt.gpus.begin(), attempt.gpus.end()), attempt.gpus.end());
    job.history.push_back(std::move(attempt));
  }
  core::ExitInfo exit{.kind = kind, .code = kind == core::ExitKind::kSuccess ? 0 : 1};
  if (stopped) exit = {.kind = kind, .signal = SIGTERM};
  // Only a task that comes back can make the core look at GPUs that nobody waited for.
  if (kind != core::ExitKind::kSuccess) CatchUp(job.node);
  events_.emplace_back(core::TaskExited{job.id, job.attempt, std::move(exit)});
  ++totals_.task_events;
  job.phase = Phase::kWaiting;
  job.untaught = true;
  ++node.waiting;
  Tell(job.node);
}

void Simulation::Retire(JobIndex index, core::TaskState state) {
  Job& job = jobs_[index];
  Node& node = nodes_[job.node];
  CARMA_CHECK(job.phase == Phase::kWaiting || job.phase == Phase::kEstimating,
              "a task ended while its process lives");
  --node.waiting;
  if (job.recovering) --node.recovering;
  timers_.Clear(JobTimer(index));
  last_end_ = std::max(last_end_, now_);
  if (state == core::TaskState::kRejected) {
    ++totals_.rejected;
  } else if (state != core::TaskState::kSucceeded) {
    ++totals_.failed;
  }
  if (job.attempts > 0) {
    const double jct_s = base::Seconds(now_ - job.submitted);
    ++executed_;
    jct_s_ += jct_s;
    execution_s_ += job.executed_s;
    waiting_s_ += jct_s - job.executed_s;
  }
  if (keeps_history_) {
    const trace::Workload& workload = *job.arrival->workload;
    report::RunTask task{.id = core::Number(job.id),
                         .name = workload.id,
                         .group = workload.weight_class,
                         .gpus = workload.gpus,
                         .submitted = job.submitted,
                         .ended = now_,
                         .state = state,
                         .attempts = std::move(job.history)};
    if (job.attempts > 0) task.solo_s = base::Seconds(options_.memory.load) + AloneS(job);
    if (options_.on_task) options_.on_task(task);
    if (recorder_) recorder_->Add(std::move(task));
  }
  job_of_.erase(core::Number(job.id));
  free_jobs_.push_back(index);
}

void Simulation::CheckBooks() const {
  for (const Node& node : nodes_) {
    const std::optional<std::string> wrong = node.core.scheduler().CheckBooks();
    CARMA_CHECK(!wrong, *wrong);
    CARMA_CHECK(node.core.scheduler().Tasks().empty(), "the core holds a task after the run");
    CARMA_CHECK(node.waiting == 0 && node.recovering == 0 && node.launched == 0 &&
                    node.computing_parts == 0,
                "a server counts a task after the run");
  }
  for (const SimGpu& gpu : gpus_) {
    CARMA_CHECK(gpu.occupants().empty() && gpu.used_mib() == 0, "a GPU is not empty after the run");
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
