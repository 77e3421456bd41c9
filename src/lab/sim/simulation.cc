// The main loop of a run. Handles timers, and exchanges events and actions with the servers'
// scheduler cores.
#include "lab/sim/simulation.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/text.h"
#include "lab/sim/reservation_words.h"

namespace carma::sim {
namespace {

// Each simulated scheduler knows the reservations for the next ten days. Its list is updated daily.
constexpr base::Duration kTold = std::chrono::hours(10 * 24);
constexpr base::Duration kOneDay = std::chrono::hours(24);
constexpr int kMostStillDays = 400;
// The published system's control loop and its monitoring window (92 s) are not synchronised with
// submissions. The first submission of a perturbed run therefore comes at a random time within the
// longer of these two periods.
constexpr double kLongestRoundMs = 92'000;
constexpr int kMostOnGpu = 48;
// A run is abandoned if no task ends or saves work while kStartsOfFew + kStartsOfEach * (number of
// unfinished tasks) attempts are stopped. By then, even time slices that started at one second have
// grown to their maximum.
constexpr std::int64_t kStartsOfEach = 100;
constexpr std::int64_t kStartsOfFew = 1'000;
// The time between two readings of the tasks' output.
constexpr base::Duration kProgressGap{30'000};

// The policy for tasks when Slurm has already chosen their GPUs: they start on these GPUs
// immediately, without CARMA's checks.
core::PolicyConfig WithoutCarma(core::PolicyConfig policy, Gres gres) {
  policy.mapper = gres == Gres::kGpu ? core::kNeverSharing : "first-fit";
  policy.sm_cap.reset();
  policy.streams_sm_cap.reset();
  policy.settle = false;
  policy.use_given_memory = false;
  policy.floor_mib = 0;
  policy.plateau_after.reset();
  policy.min_gain.reset();
  policy.max_slowdown.reset();
  policy.require.reset();
  policy.max_tasks_per_gpu = kMostOnGpu;
  policy.streams_tasks = kMostOnGpu;
  policy.order = core::QueueOrder::kFifo;
  policy.limits.clear();
  return policy;
}

// Adapts the policy to the simulated cluster. The simulated driver always responds, so no sample is
// ever too old.
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
    policy.streams_sm_cap.reset();
  }
  return policy;
}

const MigProfile& ProfileOf(const RunOptions& options) {
  const bool mig = options.collocation == core::SharingMethod::kMig;
  return *FindMigProfile(mig ? options.mig_instances : 1);
}

base::Time FirstSubmission(const RunOptions& options) {
  if (options.noise <= 0) return kDaemonsStart;
  base::Rng rng(options.seed);
  return kDaemonsStart + base::Duration(std::llround(rng.Uniform() * kLongestRoundMs));
}

}  // namespace

Simulation::Simulation(const Cluster& cluster, std::span<const Arrival> arrivals,
                       const RunOptions& options)
    : options_(options),
      arrivals_(arrivals),
      first_(FirstSubmission(options)),
      layout_(cluster, ProfileOf(options), options.collocation == core::SharingMethod::kMig),
      agenda_(cluster.servers.size()),
      jobs_(arrivals, options.noise, options.seed),
      results_(cluster, options, layout_, first_),
      machines_(options, layout_, first_, results_.recorder(),
                [this](JobIndex index, double pace) {
                  jobs_[index].work.SetPace(now(), pace);
                  Schedule(index);
                }),
      monitor_(options.monitor, layout_, machines_),
      predictions_(options, layout_),
      lines_(options.policy.order, options.policy.fair),
      candidates_(options, layout_, servers_, predictions_) {
  BuildServers();
  if (layout_.servers().size() > 1 && !HasAbove())
    idle_first_.emplace(servers_, machines_, jobs_, candidates_);
  if (options.above.placing == Placing::kSlurm)
    slurm_.emplace(options, layout_, lines_, jobs_, candidates_);
  if (options.above.placing == Placing::kAsked)
    asked_.emplace(options, layout_, servers_, lines_, jobs_, candidates_);
}

void Simulation::BuildServers() {
  const core::PolicyConfig policy = PolicyOf(options_);
  for (std::uint32_t i = 0; i < layout_.servers().size(); ++i) {
    servers_.emplace_back(policy);
    events_.emplace_back(core::GpusDiscovered{layout_.InfosOf(i)});
    if (options_.host.promised) {
      events_.emplace_back(
          core::HostDiscovered{{.cpus = static_cast<int>(std::ceil(options_.host.cores))}});
    }
    monitor_.Begin(i, events_);
    Tell(i);
  }
}

Result<RunResult> Simulation::Run() {
  const auto at = [this](std::size_t i) { return first_ + (arrivals_[i].at - arrivals_[0].at); };
  if (!arrivals_.empty()) agenda_.Set(at(0), Due::kArrivals);
  SendReservations();
  while (next_arrival_ < arrivals_.size() || jobs_.size() > 0) {
    if (still_days_ > kMostStillDays)
      return Invalid(
          "tasks are waiting, but none has run for a year: reservations leave no time for them");
    if (results_.starts_in_vain() > kStartsOfFew + kStartsOfEach * std::ssize(jobs_)) {
      return Invalid(
          "no progress: the last {} attempts (until {} after the first submission) ended before "
          "saving anything; time slices are too short (slots.length), or tasks save too rarely "
          "(--model checkpoint, checkpoint_on_stop)",
          results_.starts_in_vain(), base::FormatSpan(now() - first_));
    }
    if (agenda_.empty()) {
      return Invalid("{} can never start: the policy's rules (require, limits) forbid it",
                     base::Counted(jobs_.size(), "task"));
    }
    const Agenda::Event event = agenda_.Next();
    Handle(event);
    Dispatch();
    if (event.due == Due::kArrivals && next_arrival_ < arrivals_.size())
      agenda_.Set(at(next_arrival_), Due::kArrivals);
  }
  CheckBooks();
  RunResult result = results_.Finish(machines_.cards(), monitor_.samples());
  result.taught = predictions_.Taught();
  return result;
}

void Simulation::Handle(const Agenda::Event& event) {
  switch (event.due) {
    case Due::kArrivals:
      return OnArrivals();
    case Due::kAbove:
      return OnAbove();
    case Due::kReservations:
      return SendReservations();
    case Due::kWake:
      events_.emplace_back(core::WakeUp{});
      return Tell(event.index);
    case Due::kTick:
      return Tick(event.index);
    case Due::kSamples:
      return OnSamples(event.index);
    case Due::kTask:
      return OnJob(event.index);
  }
}

void Simulation::OnArrivals() {
  std::vector<JobIndex> jobs;
  const base::Duration at = arrivals_[next_arrival_].at;
  while (next_arrival_ < arrivals_.size() && arrivals_[next_arrival_].at == at) {
    jobs.push_back(jobs_.Add(next_arrival_++, now()));
    results_.Submitted();
  }
  if (HasAbove()) {
    for (const JobIndex each : jobs) EnterAbove(each);
    return;
  }
  if (!idle_first_) return Submit(0, jobs);
  idle_first_->Add(jobs);
}

void Simulation::SendReservations() {
  if (options_.reservations.empty()) return;
  const std::vector<core::ReservedPeriod> periods =
      PeriodsOf(options_.reservations, first_, now(), now() + kTold);
  bool still = jobs_.size() > 0;
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    events_.emplace_back(core::ReservationsChanged{periods});
    Tell(i);
    still = still && servers_[i].launched == 0;
  }
  still_days_ = still ? still_days_ + 1 : 0;
  if (!periods.empty()) agenda_.Set(now() + kOneDay, Due::kReservations);
}

void Simulation::OnSamples(std::uint32_t index) {
  Server& server = servers_[index];
  events_ = std::move(server.on_the_way.front().events);
  server.on_the_way.pop_front();
  if (!server.on_the_way.empty())
    agenda_.Set(server.on_the_way.front().arrive, Due::kSamples, index);
  Tell(index);
}

void Simulation::OnJob(JobIndex index) {
  results_.CountEvents(1);
  switch (jobs_[index].phase) {
    case Phase::kEstimating:
      return OnEstimate(index);
    case Phase::kWaiting:
      return TakeBack(index);
    case Phase::kLoading:
      Allocate(index);
      return SetTicks(jobs_[index]);
    case Phase::kComputing:
      return OnComputing(index);
    case Phase::kCrashing:
      return Exit(index, core::ExitKind::kOutOfMemory);
    case Phase::kStopping:
      return Exit(index, core::ExitKind::kFailed);
    case Phase::kAway:
      return EnterAbove(index);
  }
}

void Simulation::Tell(std::uint32_t index) {
  Server& server = servers_[index];
  while (!events_.empty()) {
    const std::vector<core::Action> actions = server.core.Handle(now(), events_);
    events_.clear();
    for (const core::Action& action : actions) {
      if (const auto* start = std::get_if<core::StartTask>(&action)) {
        Launch(index, *start);
        events_.emplace_back(core::TaskStarted{start->id, start->attempt});
        results_.CountEvents(1);
      } else if (const auto* changed = std::get_if<core::TaskChanged>(&action)) {
        OnChanged(index, changed->record);
      } else if (const auto* stop = std::get_if<core::StopTask>(&action)) {
        Stop(jobs_.IndexOf(stop->id));
      } else if (const auto* ask = std::get_if<core::AskToSave>(&action)) {
        AskToSave(jobs_.IndexOf(ask->id));
      }
    }
  }
  if (server.core.wake()) {
    agenda_.Set(std::max(*server.core.wake(), now()), Due::kWake, index);
  } else {
    agenda_.Clear(Due::kWake, index);
  }
  SetTick(index);
  ++server.told;
  if (asked_) {
    asked_->Changed(index);
    above_changed_ = true;
  }
  if (idle_first_) idle_first_->Changed(index);
}

void Simulation::CatchUp(std::uint32_t index) {
  Server& server = servers_[index];
  if (options_.progress.share > 0 && now() >= server.progress_shown + kProgressGap) {
    server.progress_shown = now();
    if (auto progress = ProgressOn(index)) events_.emplace_back(*std::move(progress));
  }
  monitor_.CatchUp(index, now(), server.queue, events_);
}

void Simulation::Tick(std::uint32_t index) {
  Server& server = servers_[index];
  if (auto sample = machines_.TakeHostSample(index)) events_.emplace_back(*std::move(sample));
  monitor_.Tick(index, now(), server.queue, events_);
  const base::Duration delay = options_.monitor.delay;
  if (delay == base::Duration{0}) return Tell(index);
  server.on_the_way.push_back({now() + delay, std::exchange(events_, {})});
  if (server.on_the_way.size() == 1)
    agenda_.Set(server.on_the_way.front().arrive, Due::kSamples, index);
  SetTick(index);
}

void Simulation::SetTicks(const Job& job) {
  for (const std::uint32_t each : job.Servers()) SetTick(each);
}

void Simulation::SetTick(std::uint32_t index) {
  Server& server = servers_[index];
  const base::Time soon = monitor_.TickAfter(now());
  if (agenda_.IsSet(Due::kTick, index) && server.next_tick <= soon) return;
  if (!monitor_.WantsTick(index, server.queue)) return;
  server.next_tick = soon;
  agenda_.Set(soon, Due::kTick, index);
}

void Simulation::CheckBooks() const {
  for (const Server& server : servers_) {
    const std::optional<std::string> wrong = server.core.scheduler().CheckBooks();
    CARMA_CHECK(!wrong, *wrong);
    CARMA_CHECK(server.core.scheduler().Tasks().empty(),
                "the core still holds a task after the run");
    CARMA_CHECK(server.queue.waiting == 0 && server.queue.recovering == 0 && server.launched == 0,
                "a server still counts a task after the run");
  }
  machines_.CheckEmpty();
  CARMA_CHECK(lines_.empty() && lines_.taking() == 0, "a task is still in the cluster's queue");
  for (std::uint32_t i = 0; HasAbove() && i < servers_.size(); ++i) {
    CARMA_CHECK((!slurm_ || slurm_->Empty(i)) && !servers_[i].whole,
                "a server is still booked after the run");
  }
  const Totals& totals = results_.so_far();
  CARMA_CHECK(totals.tasks == totals.succeeded + totals.rejected + totals.failed,
              "not every task ended exactly once");
}

}  // namespace carma::sim
