// Tasks above the servers: which of them are alike, which wait, which run on which servers, and
// when a task that comes back may start again.
#include "lab/sim/above.h"

#include <algorithm>
#include <cmath>

#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

constexpr TimerId kAboveTimer = 1;
// If there are more kinds, the table is cleared; tasks keep their own copy.
constexpr std::size_t kMostAlikes = 512;

}  // namespace

int Simulation::GpusOn(const Job& job, std::uint32_t node) const {
  const int wanted = job.arrival->workload->gpus;
  if (!IsGang(job)) return wanted;
  const auto each = static_cast<int>(nodes_[node].gpu_count);
  if (job.nodes.empty() || node != job.nodes.back()) return each;
  return wanted - each * static_cast<int>(job.nodes.size() - 1);
}

void Simulation::BuildAbove() {
  for (const Node& node : nodes_) {
    largest_server_ = std::max<std::size_t>(largest_server_, node.gpu_count);
    if (!HasAbove()) continue;
    std::vector<std::int64_t> usable_mib;
    for (std::uint32_t i = 0; i < node.gpu_count; ++i)
      usable_mib.push_back(gpus_[node.first_gpu + i].usable_mib());
    counts_.AddNode(usable_mib);
  }
  const core::PolicyConfig& policy = nodes_.front().core.scheduler().config();
  mapper_ = core::FindMapper(policy.mapper)->make(policy);
  reported_ = start_;
}

std::shared_ptr<Alike> Simulation::AlikeOf(const Job& job) {
  const std::optional<core::Estimate> estimate = EstimateFor(job).estimate;
  const core::Profile profile = PredictedProfile(job);
  const core::MpsParameters mps = profile.mps.value_or(core::MpsParameters{-1, -1});
  const AlikeKey key{job.arrival->workload,
                     job.arrival->gpu_type,
                     job.arrival->qos,
                     job.arrival->account,
                     reservations_.empty() ? 0 : UidOf(job),
                     estimate ? estimate->peak_mib : -1,
                     profile.sm_active.value_or(-1),
                     mps.sensitivity,
                     mps.pressure,
                     profile.grain.value_or(-1),
                     profile.alone ? profile.alone->count() : -1};
  if (alikes_.size() > kMostAlikes) alikes_.clear();
  std::shared_ptr<Alike>& alike = alikes_[key];
  if (alike) return alike;
  alike = std::make_shared<Alike>();
  alike->request = RequestOf(job);
  alike->estimate = estimate;
  alike->profile = profile;
  alike->asked.gpus = alike->request.gpus;
  alike->asked.whole = IsGang(job);
  if (estimate) alike->asked.memory_mib = std::max<std::int64_t>(1, estimate->peak_mib);
  return alike;
}

bool Simulation::CouldTake(Alike& alike, std::uint32_t index) {
  const Node& node = nodes_[index];
  if (node.kind >= alike.could_take.size()) alike.could_take.resize(node.kind + 1);
  std::optional<bool>& known = alike.could_take[node.kind];
  if (known) return *known;
  core::TaskRequest request = alike.request;
  if (alike.asked.whole) request.gpus = static_cast<int>(node.gpu_count);
  known = !node.core.scheduler().NeverFits(request, alike.estimate);
  return *known;
}

bool Simulation::AnotherCould(const Job& job, std::uint32_t than) {
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (i != than && CouldTake(*job.alike, i)) return true;
  }
  return false;
}

double Simulation::RateOf(const Job& job) const {
  const Alike& alike = *job.alike;
  const bool alone = alike.asked.whole || !options_.above.WithCarma();
  const core::TaskRecord record{.request = alike.request, .profile = alike.profile};
  const std::int64_t mib = std::min(alike.asked.memory_mib, largest_mib_);
  return core::RateOf(record, mib, largest_mib_, alone);
}

base::Duration Simulation::LimitOf(const Job& job) const {
  const double s = options_.above.time_limit * job.solo_s;
  return options_.memory.load + base::Duration(std::llround(s * 1000));
}

void Simulation::EnterAbove(JobIndex index) {
  Job& job = jobs_[index];
  job.alike = AlikeOf(job);
  bool could = false;
  for (std::uint32_t i = 0; !could && i < nodes_.size(); ++i) could = CouldTake(*job.alike, i);
  if (!could) return Submit(0, {&index, 1});  // which refuses it
  job.phase = Phase::kWaiting;
  job.lined_up = now_;
  lines_.Add({core::Number(job.id), index, UidOf(job), RateOf(job)}, job.arrival->user);
  above_changed_ = true;
}

std::vector<std::uint32_t> Simulation::WholeServersFor(Job& job, const IsFree& is_free) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_kind;
  const auto wanted = static_cast<std::uint32_t>(job.arrival->workload->gpus);
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!CouldTake(*job.alike, i) || !is_free(i)) continue;
    std::vector<std::uint32_t>& servers = by_kind[nodes_[i].kind];
    servers.push_back(i);
    if (servers.size() * nodes_[i].gpu_count >= wanted) return servers;
  }
  return {};
}

void Simulation::PlaceOn(JobIndex index, std::span<const std::uint32_t> nodes) {
  Job& job = jobs_[index];
  const std::uint64_t number = core::Number(job.id);
  if (kept_for_ == number) kept_for_.reset();
  lines_.Remove(UidOf(job), number);
  job.placed = true;
  job.parts = 0;
  if (IsGang(job)) job.nodes.assign(nodes.begin(), nodes.end());
  core::TaskRequest request = job.alike->request;
  request.uid = UidOf(job);
  const core::TaskRecord record{.id = job.id, .request = std::move(request)};
  shares_.Take(record, RateOf(job), now_, now_);
  job.node = nodes.front();
  for (const std::uint32_t each : nodes) {
    nodes_[each].whole = IsGang(job);
    if (options_.above.placing == Placing::kSlurm)
      job.pinned = counts_.Book(each, number, job.alike->asked, now_ + LimitOf(job));
  }
  // The task may have ended before the last server is told.
  const std::vector<std::uint32_t> servers(nodes.begin(), nodes.end());
  for (const std::uint32_t each : servers) Submit(each, {&index, 1});
}

bool Simulation::IsPatient(const Job& job) {
  const Above& above = options_.above;
  if (!HasAbove() || !above.WithCarma() || !job.placed || IsGang(job)) return false;
  const bool again = above.placing == Placing::kAsked || job.waits < above.wait_requeues;
  return again && AnotherCould(job, job.node);
}

void Simulation::TakeBack(JobIndex index) {
  Job& job = jobs_[index];
  job.leaving = true;
  job.shunned = job.node;
  ++job.waits;
  events_.emplace_back(core::CancelRequested{job.id, "the queue above"});
  Tell(job.node);
}

bool Simulation::GoesBack(const Job& job, core::TaskState state) const {
  if (!job.placed) return false;
  if (job.leaving) return true;
  const Above& above = options_.above;
  return above.placing == Placing::kSlurm && above.gres == Gres::kCarma && !IsGang(job) &&
         state == core::TaskState::kOutOfMemory && job.retries < options_.max_recoveries;
}

void Simulation::SendBack(JobIndex index, core::TaskState state) {
  Job& job = jobs_[index];
  LeaveAbove(index);
  if (state == core::TaskState::kOutOfMemory) {
    ++job.retries;
    job.shunned.reset();
    const std::int64_t had_mib = std::min(job.alike->asked.memory_mib, largest_mib_);
    job.raised_mib = std::min(largest_mib_, had_mib + options_.policy.recovery_step_mib);
  }
  ++totals_.requeues;
  job.phase = Phase::kAway;
  const bool slurm = options_.above.placing == Placing::kSlurm;
  timers_.Set(JobTimer(index), now_ + (slurm ? options_.above.requeue_delay : base::Duration{0}));
}

void Simulation::LeaveAbove(JobIndex index) {
  Job& job = jobs_[index];
  for (const std::uint32_t each : ServersOf(job)) {
    nodes_[each].whole = false;
    if (options_.above.placing == Placing::kSlurm) {
      counts_.Release(each, core::Number(job.id));
      freed_.push_back(each);
    }
  }
  shares_.Release(job.id, now_);
  job.nodes.clear();
  job.pinned.clear();
  job.placed = false;
  job.leaving = false;
  above_changed_ = true;
}

void Simulation::DispatchAbove() {
  if (!std::exchange(above_changed_, false) || lines_.empty()) return;
  const bool asked = options_.above.placing == Placing::kAsked;
  if (asked) {
    PlaceByAnswers();
  } else {
    PlaceByCounts();
  }
  if (lines_.empty() || timers_.IsSet(kAboveTimer)) return;
  if (asked && options_.monitor.mode != MonitorOptions::Mode::kNone) {
    timers_.Set(kAboveTimer, reported_ + options_.above.report_every);
  } else if (!asked && options_.above.backfill) {
    timers_.Set(kAboveTimer, now_ + options_.above.backfill_every);
  }
}

void Simulation::OnAbove() {
  if (options_.above.placing == Placing::kAsked) {
    Report();
  } else {
    Backfill();
  }
  above_changed_ = true;  // so that the next pass is asked for
}

}  // namespace carma::sim
