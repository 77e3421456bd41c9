// Stores unfinished tasks and builds their requests to servers.
#include "lab/sim/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace carma::sim {

bool IsGang(const Layout& layout, const Job& job) {
  return static_cast<std::uint32_t>(job.workload().gpus) > layout.most_gpus();
}

int GpusOn(const Layout& layout, const Job& job, std::uint32_t server) {
  const int wanted = job.workload().gpus;
  if (!IsGang(layout, job)) return wanted;
  const std::vector<std::uint32_t>& nodes = job.above.nodes;
  const auto each = static_cast<int>(layout.servers()[server].gpu_count);
  if (nodes.empty() || server != nodes.back()) return each;
  return wanted - each * static_cast<int>(nodes.size() - 1);
}

double CoresOf(const RunOptions& options, const Job& job) {
  const std::optional<double>& told = job.arrival->cpus ? job.arrival->cpus : job.workload().cpus;
  return told.value_or(options.host.cores_per_gpu_task * static_cast<double>(job.workload().gpus));
}

core::TaskRequest RequestOf(const RunOptions& options, const Layout& layout, const Job& job,
                            std::optional<std::uint32_t> server) {
  const bool gang = IsGang(layout, job);
  core::TaskRequest request{.gpus = job.workload().gpus,
                            .user = job.arrival->user,
                            .max_recoveries = options.max_recoveries};
  const Checkpoints& checkpoints = options.checkpoints;
  if (checkpoints.on_stop || checkpoints.every > base::Duration{0})
    request.checkpoint_signal = options.policy.slots.checkpoint_signal;
  if (!job.arrival->gpu_type.empty()) request.gpu_type = job.arrival->gpu_type;
  if (!job.arrival->qos.empty()) request.qos = job.arrival->qos;
  if (!job.arrival->account.empty()) request.account = job.arrival->account;
  request.uid = job.uid;
  // The request is capped at the server's cores, because a task that requests more could never
  // start.
  const double cores = std::ceil(std::min(CoresOf(options, job), options.host.cores));
  if (options.host.promised && cores >= 1) request.cpus = static_cast<int>(cores);
  // Without an estimate, a task requests whole GPUs, as in `carma trace replay`.
  request.exclusive = options.policy.pacing == core::Pacing::kImmediate &&
                      trace::Estimate(job.workload(), options.estimates.source).whole_gpu;
  if (gang) request.exclusive = true;
  // A server never retries a task that spans several servers or that Slurm placed.
  // Simulation::GoesBack decides whether the cluster's queue retries the task.
  if (gang || options.above.placing == Placing::kSlurm) request.max_recoveries = 0;
  if (!server) return request;
  request.gpus = GpusOn(layout, job, *server);
  if (request.cpus && gang) {
    const double here = CoresOf(options, job) * request.gpus / job.workload().gpus;
    request.cpus = std::max(1, static_cast<int>(std::ceil(here)));
  }
  for (const std::uint32_t gpu : job.above.pinned)
    request.on_gpus.push_back(fmt::format("{}", gpu));
  return request;
}

Jobs::Jobs(std::span<const Arrival> arrivals, double noise, std::uint64_t seed)
    : arrivals_(arrivals), noise_(noise), seed_(seed) {
  constexpr std::uint32_t kFirstUid = 1001;
  for (const Arrival& each : arrivals) {
    const auto uid = kFirstUid + static_cast<std::uint32_t>(uids_.size());
    if (!each.user.empty()) uids_.try_emplace(each.user, uid);
  }
}

JobIndex Jobs::Add(std::size_t number, base::Time now) {
  if (free_.empty()) {
    free_.push_back(static_cast<JobIndex>(jobs_.size()));
    jobs_.emplace_back();
  }
  const JobIndex index = free_.back();
  free_.pop_back();
  Job& job = jobs_[index];
  job = Job{};
  job.id = core::TaskId{number + 1};
  job.arrival = &arrivals_[number];
  job.uid = job.arrival->user.empty() ? 0 : uids_.at(job.arrival->user);
  job.submitted = now;
  double solo_s = job.arrival->solo_s.value_or(job.workload().solo_s);
  if (noise_ > 0) solo_s *= std::exp(noise_ * Chance(seed_, Draw::kNoise, number).Normal());
  job.work = Work(solo_s);
  index_of_.emplace(core::Number(job.id), index);
  return index;
}

void Jobs::Remove(JobIndex index) {
  index_of_.erase(core::Number(jobs_[index].id));
  free_.push_back(index);
}

}  // namespace carma::sim
