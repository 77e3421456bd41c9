// Applies the models of memory, speed, activity and power to the cluster's GPUs.
#include "lab/sim/machines.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/result.h"
#include "lab/sim/agenda.h"

namespace carma::sim {

Machines::Machines(const RunOptions& options, const Layout& layout, base::Time from,
                   Recorder* recorder, PaceChanged pace_changed)
    : options_(options),
      layout_(layout),
      recorder_(recorder),
      pace_changed_(std::move(pace_changed)),
      // Tasks on the same MIG instance take turns, as with streams.
      sharing_(options.collocation == core::SharingMethod::kMps ? core::SharingMethod::kMps
                                                                : core::SharingMethod::kStreams) {
  for (std::uint32_t gpu = 0; gpu < layout.gpu_count(); ++gpu)
    gpus_.emplace_back(layout.UsableMib(gpu), kDaemonsStart);
  processes_.resize(gpus_.size(), 0);
  for (const GpuType* type : layout.cards()) cards_.emplace_back(type->power, from);
  for (const Layout::Server& server : layout.servers())
    hosts_.push_back({.idle_gpus = static_cast<int>(server.gpu_count)});
}

void Machines::AddProcess(std::uint32_t gpu) {
  if (processes_[gpu]++ == 0) --hosts_[layout_.ServerOf(gpu)].idle_gpus;
}

void Machines::RemoveProcess(std::uint32_t gpu) {
  if (--processes_[gpu] == 0) ++hosts_[layout_.ServerOf(gpu)].idle_gpus;
}

std::int64_t Machines::FirstMib(const Resident& resident, std::size_t part) const {
  return HeldMib(options_.memory, resident.workload->memory_mib[part], base::Duration{0});
}

bool Machines::Fits(const Resident& resident, std::size_t part, std::int64_t mib,
                    std::int64_t held_mib, std::int64_t tasks) const {
  if (resident.limit_mib > 0 && mib > resident.limit_mib) return false;
  const SimGpu& gpu = gpus_[resident.gpus[part]];
  return mib <= held_mib || gpu.used_mib() + mib - held_mib <=
                                AllocatableMib(options_.memory, gpu.usable_mib(), tasks);
}

bool Machines::HasRoom(const Resident& resident) const {
  for (std::size_t part = 0; part < resident.gpus.size(); ++part) {
    const std::int64_t others = std::ssize(gpus_[resident.gpus[part]].occupants());
    if (!Fits(resident, part, FirstMib(resident, part), 0, others + 1)) return false;
  }
  return true;
}

void Machines::Enter(base::Time now, std::uint32_t job, Resident entering) {
  if (job >= residents_.size()) residents_.resize(job + 1);
  residents_[job] = {.resident = std::move(entering)};
  const Resident& resident = residents_[job].resident;
  residents_[job].on_each.assign(resident.gpus.size(), 0);
  const trace::Workload& workload = *resident.workload;
  for (std::size_t part = 0; part < resident.gpus.size(); ++part) {
    const std::uint32_t gpu = resident.gpus[part];
    const double u = workload.sm_active[part];
    gpus_[gpu].Add(
        {.job = job,
         .part = static_cast<std::uint32_t>(part),
         .mib = FirstMib(resident, part),
         .base_speed = layout_.TypeOf(gpu).relative_speed * MigSpeed(layout_.mig().compute, u),
         .load = {.sm_active = std::min(1.0, u / layout_.mig().compute),
                  .sensitivity = workload.mps_sensitivity,
                  .pressure = workload.mps_pressure,
                  .user = resident.user}});
  }
  for (const std::uint32_t each : resident.servers) {
    ++hosts_[each].computing;
    hosts_[each].wanted_cores += CoresOn(resident, each);
  }
  RecomputeAll(now, resident);
}

bool Machines::Resize(base::Time now, std::uint32_t job, base::Duration since) {
  const Resident& resident = residents_[job].resident;
  const auto wanted_mib = [&](std::size_t part) {
    return HeldMib(options_.memory, resident.workload->memory_mib[part], since);
  };
  for (std::size_t part = 0; part < resident.gpus.size(); ++part) {
    const std::vector<Occupant>& occupants = gpus_[resident.gpus[part]].occupants();
    const auto mine = std::ranges::find(occupants, job, &Occupant::job);
    if (Fits(resident, part, wanted_mib(part), mine->mib, std::ssize(occupants))) continue;
    Leave(now, job);
    return false;
  }
  for (std::size_t part = 0; part < resident.gpus.size(); ++part) {
    gpus_[resident.gpus[part]].Resize(job, wanted_mib(part));
    SetActivity(now, resident.gpus[part]);
  }
  return true;
}

void Machines::Leave(base::Time now, std::uint32_t job) {
  const Resident& resident = residents_[job].resident;
  for (const std::uint32_t gpu : resident.gpus) gpus_[gpu].Remove(job);
  for (const std::uint32_t each : resident.servers) {
    Host& host = hosts_[each];
    host.wanted_cores = --host.computing == 0 ? 0 : host.wanted_cores - CoresOn(resident, each);
  }
  RecomputeAll(now, resident);
}

double Machines::CoresOn(const Resident& resident, std::uint32_t server) const {
  const auto here = std::ranges::count_if(
      resident.gpus, [&](std::uint32_t gpu) { return layout_.ServerOf(gpu) == server; });
  return resident.cores * static_cast<double>(here) / static_cast<double>(resident.gpus.size());
}

void Machines::RecomputeAll(base::Time now, const Resident& resident) {
  for (const std::uint32_t gpu : resident.gpus) Recompute(now, gpu);
  for (const std::uint32_t each : resident.servers) RecomputeHost(now, each);
}

void Machines::RecomputeHost(base::Time now, std::uint32_t index) {
  if (options_.host.cores <= 0) return;
  Host& host = hosts_[index];
  host.changed = true;
  const double factor = HostFactor(options_.host, host.wanted_cores);
  if (factor == host.factor) return;
  host.factor = factor;
  for (const std::uint32_t gpu : layout_.GpusOf(index)) Recompute(now, gpu);
}

void Machines::Recompute(base::Time now, std::uint32_t gpu) {
  const std::vector<Occupant>& occupants = gpus_[gpu].occupants();
  loads_.clear();
  for (const Occupant& each : occupants) loads_.push_back(each.load);
  speeds_.resize(loads_.size());
  Speeds(options_.interference, sharing_, loads_, speeds_);
  const double host_factor = hosts_[layout_.ServerOf(gpu)].factor;
  for (std::size_t i = 0; i < occupants.size(); ++i) {
    Pace& of = residents_[occupants[i].job];
    const double factor = of.resident.cores > 0 ? host_factor : 1;
    of.on_each[occupants[i].part] = speeds_[i] * occupants[i].base_speed * factor;
  }
  for (const Occupant& each : occupants) SetPace(now, each.job);
  SetActivity(now, gpu);
}

void Machines::SetPace(base::Time now, std::uint32_t job) {
  Pace& of = residents_[job];
  const double pace = *std::ranges::min_element(of.on_each);
  if (pace == of.slowest) return;
  of.slowest = pace;
  pace_changed_(job, pace);
  if (sharing_ == core::SharingMethod::kMps && !of.resident.alone) return;
  // Without MPS, the activity of all the task's GPUs depends on its pace.
  for (const std::uint32_t gpu : of.resident.gpus) SetActivity(now, gpu);
}

core::SharingMethod Machines::SharingOn(std::uint32_t gpu) const {
  const std::vector<Occupant>& occupants = gpus_[gpu].occupants();
  // A task on an exclusive GPU is not an MPS client, so use its SM activity measured without MPS.
  if (occupants.size() == 1 && residents_[occupants.front().job].resident.alone)
    return core::SharingMethod::kStreams;
  return sharing_;
}

void Machines::SetActivity(base::Time now, std::uint32_t gpu) {
  SimGpu& changed = gpus_[gpu];
  loads_.clear();
  speeds_.clear();
  for (const Occupant& each : changed.occupants()) {
    loads_.push_back(each.load);
    speeds_.push_back(residents_[each.job].slowest / each.base_speed);
  }
  // Under MPS, the combined activity is computed from the loads, which shrink while the server is
  // short of cores; without MPS, it is computed from the speeds.
  const double host_factor = hosts_[layout_.ServerOf(gpu)].factor;
  const core::SharingMethod sharing = SharingOn(gpu);
  if (sharing == core::SharingMethod::kMps && !core::OfSeveralUsers(loads_)) {
    for (core::Load& load : loads_) load.sm_active *= host_factor;
  }
  const double sm_active = SmActivity(options_.interference, sharing, loads_, speeds_);
  changed.SetActivity(now, sm_active, options_.monitor.window + options_.monitor.period);

  const std::uint32_t card = layout_.CardOf(gpu);
  const auto instances = static_cast<std::uint32_t>(layout_.mig().instances);
  std::int64_t used_mib = 0;
  double active = 0;
  for (std::uint32_t i = 0; i < instances; ++i) {
    const SimGpu& each = gpus_[layout_.FirstOnCard(card) + i];
    used_mib += each.used_mib();
    active += each.sm_active() * layout_.mig().compute;
  }
  cards_[card].Set(now, used_mib, std::min(1.0, active));
  if (recorder_ == nullptr) return;
  recorder_->OfDevice(card).Set(now, static_cast<double>(used_mib), cards_[card].sm_active(),
                                cards_[card].power_w());
}

std::optional<core::HostSampled> Machines::TakeHostSample(std::uint32_t index) {
  Host& host = hosts_[index];
  if (!std::exchange(host.changed, false)) return std::nullopt;
  core::HostSampled sample{.cpus = options_.host.cores,
                           .used_cpus = std::min(options_.host.cores, host.wanted_cores)};
  std::map<core::TaskId, double> cpus;
  for (const std::uint32_t gpu : layout_.GpusOf(index)) {
    for (const Occupant& each : gpus_[gpu].occupants()) {
      const Resident& resident = residents_[each.job].resident;
      cpus[resident.id] += resident.cores / resident.workload->gpus * host.factor;
    }
  }
  sample.tasks_cpus.assign(cpus.begin(), cpus.end());
  return sample;
}

void Machines::CheckEmpty() const {
  for (const SimGpu& gpu : gpus_)
    CARMA_CHECK(gpu.occupants().empty() && gpu.used_mib() == 0, "a GPU is not empty after the run");
  for (const Host& host : hosts_) {
    CARMA_CHECK(host.computing == 0 && host.wanted_cores == 0,
                "a server still counts a task after the run");
  }
}

}  // namespace carma::sim
