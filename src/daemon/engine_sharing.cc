// How the engine's tasks share their GPUs (docs/collocation.md): who is a client of which MPS
// server, and how clients leave it.
#include <algorithm>
#include <cmath>

#include "daemon/engine.h"
#include "task/mps/mps.h"

namespace carma::daemon {
namespace {

using base::Result;
using base::Unit;

// Instances are no place for MPS servers here; a GPU that was never described is not usable.
std::string AllMpsGpus(const std::vector<core::GpuInfo>& gpus) {
  std::string all;
  for (const core::GpuInfo& gpu : gpus) {
    if (gpu.mig || gpu.UsableMib() <= 0) continue;
    all += (all.empty() ? "" : ",") + gpu.uuid;
  }
  return all;
}

}  // namespace

std::optional<core::Sharing> Engine::PlainSharing(const core::StartTask& start) const {
  using core::SharingMethod;
  const core::TaskRecord* record = scheduler_.Find(start.id);
  const bool mig = std::any_of(start.placement.begin(), start.placement.end(), [&](const auto& at) {
    return scheduler_.GpuInfos().at(core::Number(at.gpu)).mig;
  });
  core::Sharing sharing;
  sharing.method = mig           ? SharingMethod::kMig
                   : start.alone ? SharingMethod::kAlone
                                 : SharingMethod::kStreams;
  if (sharing.method == SharingMethod::kStreams && options_.share_by_mps &&
      options_.mps != nullptr) {
    if (start.placement.size() == 1 || !options_.mps_server_per_gpu) return std::nullopt;
    sharing.note = "It uses several GPUs, and an MPS server serves one (collocation.mps_servers).";
  }
  if (record != nullptr && record->request.sm_share) {
    if (!sharing.note.empty()) sharing.note += ' ';
    sharing.note += "Nothing limits its share of the SMs: only MPS can.";
  }
  return sharing;
}

core::Sharing Engine::MpsSharing(const core::StartTask& start, const task::MpsSeat& seat) const {
  core::Sharing sharing;
  sharing.method = core::SharingMethod::kMps;
  sharing.server = seat.gpus;
  const core::Placement& at = start.placement.front();
  if (options_.mps_memory_limit && at.claim_mib > 0) {
    sharing.memory_limit_mib = std::min(at.claim_mib + options_.policy.margin_mib,
                                        scheduler_.GpuInfos().at(core::Number(at.gpu)).UsableMib());
  }
  const core::TaskRecord* record = scheduler_.Find(start.id);
  if (record != nullptr && record->request.sm_share) {
    const double percent = std::ceil(*record->request.sm_share * 100 - 1e-9);
    sharing.thread_percent = static_cast<int>(std::clamp(percent, 1.0, 100.0));
  }
  return sharing;
}

// Those of the other way of serving too: the configuration may have been changed.
std::vector<std::string> Engine::MpsSeats() const {
  std::vector<std::string> seats{AllMpsGpus(scheduler_.GpuInfos())};
  for (const core::GpuInfo& gpu : scheduler_.GpuInfos()) seats.push_back(gpu.uuid);
  return seats;
}

task::MpsSeat Engine::SeatOf(std::uint32_t uid, std::uint32_t gid,
                             const std::vector<std::string>& gpu_uuids) const {
  if (options_.mps_server_per_gpu) return {uid, gid, gpu_uuids.front()};
  return {uid, gid, AllMpsGpus(scheduler_.GpuInfos())};
}

void Engine::ApplySharing(const core::Sharing& sharing, bool alone,
                          task::LaunchOrder& order) const {
  const bool client = sharing.method == core::SharingMethod::kMps;
  // Alone on its GPUs a task may well bring an MPS server of its own for its processes.
  if (!client && alone && order.spec.environment.contains("CUDA_MPS_PIPE_DIRECTORY")) return;
  for (const auto& [name, value] :
       client ? task::MpsClientEnvironment(options_.mps_dir, {order.uid, order.gid, sharing.server},
                                           sharing)
              : task::WithoutMpsEnvironment()) {
    order.extra_environment[name] = value;
  }
}

void Engine::TakeSeat(core::TaskId id, int attempt, const Result<Unit>& seated) {
  const auto found = arranged_.find(core::Number(id));
  if (found == arranged_.end() || found->second.order.attempt != attempt) return;
  Arranged& arranged = found->second;
  core::Sharing sharing;
  if (seated) {
    const task::LaunchOrder& order = arranged.order;
    sharing = MpsSharing(arranged.start, SeatOf(order.uid, order.gid, order.gpu_uuids));
  } else {
    sharing.method = core::SharingMethod::kStreams;
    sharing.note = "Without MPS: " + seated.error().message + ".";
  }
  ApplySharing(sharing, arranged.start.alone, arranged.order);
  arranged.sharing = sharing;
  Post(core::SharingChosen{id, attempt, std::move(sharing)});
}

void Engine::StartArranged(const core::TaskRecord& record) {
  const auto found = arranged_.find(core::Number(record.id));
  if (found == arranged_.end() || found->second.order.attempt != record.attempt ||
      found->second.sharing != record.sharing || record.state != core::TaskState::kLaunching) {
    return;
  }
  task::LaunchOrder order = std::move(found->second.order);
  arranged_.erase(found);
  launcher_.Start(std::move(order));
}

void Engine::Stop(const core::StopTask& stop) {
  const auto arranged = arranged_.find(core::Number(stop.id));
  if (arranged != arranged_.end() && arranged->second.order.attempt == stop.attempt) {
    arranged_.erase(arranged);
    options_.mps->Leave(stop.id, stop.attempt);
    Post(core::LaunchFailed{stop.id, stop.attempt, "stopped before it was started", false});
    return;
  }
  const core::TaskRecord* record = scheduler_.Find(stop.id);
  if (options_.mps == nullptr || record == nullptr ||
      record->sharing.method != core::SharingMethod::kMps) {
    return launcher_.Stop(stop.id, stop.attempt);
  }
  // A client that is killed with work in flight can take its server along, and so its neighbours.
  options_.mps->TakeOff(
      stop.id, stop.attempt,
      [this, id = stop.id](pid_t pid) { return attribution_.Find(pid) == id; },
      [this, stop] { launcher_.Stop(stop.id, stop.attempt); });
}

}  // namespace carma::daemon
