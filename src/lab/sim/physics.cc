// Memory, speed, activity and power of the simulated cluster.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lab/sim/simulation.h"

namespace carma::sim {
namespace {

core::SharingMethod SharingOf(core::SharingMethod collocation) {
  // Instances do not share; two tasks on one instance alternate in time.
  return collocation == core::SharingMethod::kMps ? core::SharingMethod::kMps
                                                  : core::SharingMethod::kStreams;
}

}  // namespace

Load Simulation::LoadOf(const Job& job, std::size_t part) const {
  const trace::Workload& workload = *job.arrival->workload;
  const double u = workload.sm_active[part];
  return {.sm_active = std::min(1.0, u / mig_.compute),
          .sensitivity = workload.mps_sensitivity,
          .pressure = workload.mps_pressure,
          .user = MpsUserOf(job)};
}

std::uint32_t Simulation::MpsUserOf(const Job& job) const {
  if (IsNoMpsClient(job))
    return core::kNoMpsClient | static_cast<std::uint32_t>(core::Number(job.id));
  return options_.policy.users_take_turns ? UidOf(job) : 0;
}

double Simulation::BaseSpeed(const Job& job, std::size_t part) const {
  return TypeOf(job.gpus[part]).relative_speed *
         MigSpeed(mig_.compute, job.arrival->workload->sm_active[part]);
}

double Simulation::AloneS(const Job& job, double work_s) const {
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t part = 0; part < job.gpus.size(); ++part) {
    slowest = std::min(slowest, TypeOf(job.gpus[part]).relative_speed);
  }
  return work_s / slowest;
}

bool Simulation::Fits(std::uint32_t gpu, std::int64_t more_mib, int tasks) const {
  return more_mib <= 0 || gpus_[gpu].used_mib() + more_mib <=
                              AllocatableMib(options_.memory, gpus_[gpu].usable_mib(), tasks);
}

void Simulation::Allocate(JobIndex index) {
  Job& job = jobs_[index];
  const auto held_mib = [&](std::size_t part) {
    return HeldMib(options_.memory, job.arrival->workload->memory_mib[part], base::Duration{0});
  };
  for (std::size_t part = 0; part < job.gpus.size(); ++part) {
    const auto others = static_cast<int>(gpus_[job.gpus[part]].occupants().size());
    if (!Fits(job.gpus[part], held_mib(part), others + 1) || !MayHold(job, held_mib(part)))
      return OutOfMemory(index);
  }
  Begin(index);
  for (std::size_t part = 0; part < job.gpus.size(); ++part) {
    const std::uint32_t gpu = job.gpus[part];
    gpus_[gpu].Add({.job = index,
                    .part = static_cast<std::uint32_t>(part),
                    .mib = held_mib(part),
                    .load = LoadOf(job, part)});
    --observed_[gpu].unseen;
  }
  for (const std::uint32_t each : ServersOf(job)) {
    ++nodes_[each].computing;
    nodes_[each].wanted_cores += CoresOn(job, each);
  }
  for (const std::uint32_t gpu : job.gpus) Recompute(gpu);
  for (const std::uint32_t each : ServersOf(job)) RecomputeHost(each);
  Schedule(index);
}

void Simulation::StepMemory(JobIndex index) {
  Job& job = jobs_[index];
  const base::Duration since = now_ - job.allocated;
  for (std::size_t part = 0; part < job.gpus.size(); ++part) {
    SimGpu& gpu = gpus_[job.gpus[part]];
    const auto mine = std::find_if(gpu.occupants().begin(), gpu.occupants().end(),
                                   [index](const Occupant& each) { return each.job == index; });
    const std::int64_t wanted_mib =
        HeldMib(options_.memory, job.arrival->workload->memory_mib[part], since);
    if (!MayHold(job, wanted_mib) ||
        !Fits(job.gpus[part], wanted_mib - mine->mib, static_cast<int>(gpu.occupants().size()))) {
      Leave(index);
      for (const std::uint32_t each : job.gpus) ++observed_[each].unseen;
      return OutOfMemory(index);
    }
  }
  for (std::size_t part = 0; part < job.gpus.size(); ++part) {
    const std::uint32_t gpu = job.gpus[part];
    gpus_[gpu].Resize(index,
                      HeldMib(options_.memory, job.arrival->workload->memory_mib[part], since));
    SetActivity(gpu);
  }
  job.memory_steps.reset();
  if (const auto step = NextStep(options_.memory, since)) job.memory_steps = job.allocated + *step;
  Schedule(index);
}

void Simulation::OutOfMemory(JobIndex index) {
  Job& job = jobs_[index];
  job.phase = Phase::kCrashing;
  ++job.ooms;
  ++totals_.oom_crashes;
  timers_.Set(JobTimer(index), now_ + options_.memory.crash_delay);
}

void Simulation::Leave(JobIndex index) {
  Job& job = jobs_[index];
  job.holds = false;
  for (const std::uint32_t gpu : job.gpus) gpus_[gpu].Remove(index);
  for (const std::uint32_t each : ServersOf(job)) {
    Node& node = nodes_[each];
    node.wanted_cores = --node.computing == 0 ? 0 : node.wanted_cores - CoresOn(job, each);
  }
  for (const std::uint32_t gpu : job.gpus) Recompute(gpu);
  for (const std::uint32_t each : ServersOf(job)) RecomputeHost(each);
}

double Simulation::CoresOn(const Job& job, std::uint32_t node) const {
  return CoresOf(job) * GpusOn(job, node) / job.arrival->workload->gpus;
}

double Simulation::CoresOf(const Job& job) const {
  const std::optional<double>& told =
      job.arrival->cpus ? job.arrival->cpus : job.arrival->workload->cpus;
  return told.value_or(options_.host.cores_per_gpu_task *
                       static_cast<double>(job.arrival->workload->gpus));
}

void Simulation::RecomputeHost(std::uint32_t index) {
  if (options_.host.cores <= 0) return;
  Node& node = nodes_[index];
  node.host_changed = true;
  const double factor = HostFactor(options_.host, node.wanted_cores);
  if (factor == node.host_factor) return;
  node.host_factor = factor;
  for (std::uint32_t gpu = node.first_gpu; gpu < node.first_gpu + node.gpu_count; ++gpu) {
    Recompute(gpu);
  }
}

void Simulation::Recompute(std::uint32_t gpu) {
  const std::vector<Occupant>& occupants = gpus_[gpu].occupants();
  loads_.clear();
  for (const Occupant& each : occupants) loads_.push_back(each.load);
  speeds_.resize(loads_.size());
  Speeds(options_.interference, SharingOf(options_.collocation), loads_, speeds_);
  const double host_factor = nodes_[node_of_[gpu]].host_factor;
  for (std::size_t i = 0; i < occupants.size(); ++i) {
    Job& job = jobs_[occupants[i].job];
    const double factor = CoresOf(job) > 0 ? host_factor : 1;
    job.paces[occupants[i].part] = speeds_[i] * BaseSpeed(job, occupants[i].part) * factor;
  }
  for (const Occupant& each : occupants) SetPace(each.job);
  SetActivity(gpu);
}

void Simulation::SetPace(JobIndex index) {
  Job& job = jobs_[index];
  const double pace = *std::min_element(job.paces.begin(), job.paces.end());
  if (pace == job.pace) return;
  Advance(job);
  job.pace = pace;
  Schedule(index);
  if (SharingOf(options_.collocation) == core::SharingMethod::kMps && !job.alone) return;
  // With time slices, the task's share follows from its pace, on its other GPUs too.
  for (const std::uint32_t gpu : job.gpus) SetActivity(gpu);
}

core::SharingMethod Simulation::SharingOn(std::uint32_t gpu) const {
  const std::vector<Occupant>& occupants = gpus_[gpu].occupants();
  // Without MPS a task has the SM activity that was measured when it ran alone.
  if (occupants.size() == 1 && jobs_[occupants.front().job].alone)
    return core::SharingMethod::kStreams;
  return SharingOf(options_.collocation);
}

void Simulation::SetActivity(std::uint32_t gpu) {
  SimGpu& changed = gpus_[gpu];
  const std::vector<Occupant>& occupants = changed.occupants();
  loads_.clear();
  speeds_.clear();
  for (const Occupant& each : occupants) {
    const Job& job = jobs_[each.job];
    loads_.push_back(each.load);
    speeds_.push_back(job.pace / BaseSpeed(job, each.part));
  }
  const double sm_active = SmActivity(options_.interference, SharingOn(gpu), loads_, speeds_);
  changed.SetActivity(now_, sm_active, options_.monitor.window + options_.monitor.period);
  Touch(gpu);

  const std::uint32_t device = gpu / static_cast<std::uint32_t>(mig_.instances);
  std::int64_t used_mib = 0;
  double device_active = 0;
  for (int i = 0; i < mig_.instances; ++i) {
    const SimGpu& each =
        gpus_[device * static_cast<std::uint32_t>(mig_.instances) + static_cast<std::uint32_t>(i)];
    used_mib += each.used_mib();
    device_active += each.sm_active() * mig_.compute;
  }
  devices_[device].Set(now_, used_mib, std::min(1.0, device_active));
  if (recorder_) {
    recorder_->SetDevice(device, now_, static_cast<double>(used_mib), devices_[device].sm_active(),
                         devices_[device].power_w());
  }
}

}  // namespace carma::sim
