#include "daemon/engine/starts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/cpu_list.h"
#include "base/log.h"
#include "base/try.h"
#include "core/policy/slots.h"
#include "task/mps/mps.h"
#include "task/shim/attempt_folder.h"

namespace carma::daemon {
namespace {

// Smaller changes to a running task's memory limit are skipped, because each one costs a driver
// call.
constexpr std::int64_t kLimitStepMib = 256;

// GPUs that can have an MPS server: all except MIG instances and GPUs of unknown size.
std::string AllMpsGpus(const std::vector<core::GpuInfo>& gpus) {
  std::string all;
  for (const core::GpuInfo& gpu : gpus) {
    if (gpu.mig || gpu.UsableMib() <= 0) continue;
    all += (all.empty() ? "" : ",") + gpu.uuid;
  }
  return all;
}

}  // namespace

Starts::Starts(const EngineOptions& options, store::Store& store, task::Launcher& launcher,
               const core::Scheduler& core, Attribution& attribution, PostEvent post)
    : options_(options),
      store_(store),
      launcher_(launcher),
      core_(core),
      attribution_(attribution),
      post_(std::move(post)) {}

const core::GpuInfo& Starts::Gpu(const core::Placement& at) const {
  return core_.GpuInfos().at(core::Number(at.gpu));
}

std::string Starts::AttemptDir(core::TaskId id, int attempt) const {
  return fmt::format("{}/attempts/{}/{}", options_.state_dir, id, attempt);
}

void Starts::Adopt(const core::TaskRecord& record, std::uint32_t gid) {
  launcher_.Adopt({record.id, record.attempt->number, AttemptDir(record.id, record.attempt->number),
                   record.request->uid, record.attempt->started.has_value()});
  if (options_.mps == nullptr || record.attempt->sharing.server.empty()) return;
  options_.mps->Adopt(
      {record.id, record.attempt->number,
       task::MpsServerNamed(record.request->uid, gid, record.attempt->sharing.server), 0,
       record.attempt->sharing.partition});
}

void Starts::Sweep(const std::function<bool(core::TaskId, int)>& kept) const {
  const std::size_t swept = task::SweepAttempts(options_.state_dir + "/attempts", kept);
  if (swept > 0) base::LogInfo("attempts_swept", {{"folders", swept}});
}

// ---- how tasks share GPUs ----

std::optional<core::Sharing> Starts::PlainSharing(const core::StartTask& start) const {
  using core::SharingMethod;
  if (start.placement.empty()) return core::Sharing{};  // the task needs no GPU
  const core::TaskRecord* record = core_.Find(start.id);
  const bool mig =
      std::ranges::any_of(start.placement, [&](const auto& at) { return Gpu(at).mig; });
  core::Sharing sharing;
  sharing.method = mig           ? SharingMethod::kMig
                   : start.alone ? SharingMethod::kAlone
                                 : SharingMethod::kStreams;
  if (sharing.method == SharingMethod::kStreams && options_.share_by_mps &&
      options_.mps != nullptr) {
    if (start.placement.size() == 1 || options_.mps_servers != task::MpsScope::kGpu)
      return std::nullopt;
    sharing.note =
        "It uses several GPUs, but an MPS server serves only one (collocation.mps_servers).";
  }
  if (record != nullptr && record->request->sm_share) {
    if (!sharing.note.empty()) sharing.note += ' ';
    sharing.note += "Its share of the SMs is not limited, because only MPS can limit it.";
  }
  if (sharing.method == SharingMethod::kStreams)
    sharing.group_limit_mib = GroupLimitMib(start.placement, start.bound_mib);
  return sharing;
}

core::Sharing Starts::MpsSharing(const core::StartTask& start, const task::MpsServerId& server,
                                 const MpsPlace& place) const {
  core::Sharing sharing;
  sharing.method = core::SharingMethod::kMps;
  sharing.server = task::MpsServerName(server);
  if (server.shared)
    sharing.note = "Its MPS server is shared by all users, who are not isolated from each other.";
  const core::Placement& at = start.placement.front();
  if (options_.mps_memory_limit && at.claim_mib > 0 && task::MpsLimitHolds(server.gpus)) {
    sharing.memory_limit_mib = std::min(
        std::max(at.claim_mib, start.bound_mib) + options_.policy.margin_mib, Gpu(at).UsableMib());
  }
  sharing.group_limit_mib = GroupLimitMib(start.placement, start.bound_mib);
  sharing.partition = place.partition;
  sharing.partition_sms = place.sms;
  if (!place.note.empty()) sharing.note = place.note;
  const core::TaskRecord* record = core_.Find(start.id);
  if (record != nullptr && record->request->sm_share && place.partition.empty()) {
    const double percent = std::ceil(*record->request->sm_share * 100 - 1e-9);
    sharing.thread_percent = static_cast<int>(std::clamp(percent, 1.0, 100.0));
  }
  return sharing;
}

std::int64_t Starts::GroupLimitMib(const std::vector<core::Placement>& placement,
                                   std::int64_t bound_mib) const {
  if (options_.limiter.empty() || !options_.mps_memory_limit) return 0;
  std::int64_t promised_mib = bound_mib, usable_mib = 0;
  for (const core::Placement& at : placement) {
    if (at.claim_mib == 0) return 0;
    promised_mib = std::max(promised_mib, at.claim_mib);
    usable_mib = std::max(usable_mib, Gpu(at).UsableMib());
  }
  return std::min(promised_mib + options_.policy.margin_mib, usable_mib);
}

std::map<core::TaskId, std::vector<task::GpuMemoryLimit>> Starts::Rooms(base::Time now) const {
  std::map<core::TaskId, std::vector<task::GpuMemoryLimit>> rooms;
  // The memory that a promise withholds from other tasks. A task that leaves its plateau is
  // promised its whole claim again, but part of the claim may have been promised to others in the
  // meantime. While the task's limit is below its claim, only the memory in use counts.
  const auto kept = [this](const core::Promise& promise) {
    const std::int64_t limit_mib = core_.Find(promise.task)->attempt->sharing.group_limit_mib;
    const bool ceded = !promise.plateau && limit_mib > 0 && limit_mib < promise.claim_mib;
    return ceded ? promise.observed_mib : promise.promised_mib;
  };
  const std::vector<core::GpuInfo>& gpus = core_.GpuInfos();
  for (std::uint32_t i = 0; i < gpus.size(); ++i) {
    const std::vector<core::Promise> promises = core_.PromisesOn(core::GpuIndex{i}, now);
    std::int64_t left_mib = gpus[i].UsableMib();
    for (const core::Promise& each : promises) left_mib -= kept(each);
    for (const core::Promise& each : promises) {
      const std::int64_t own_mib = each.plateau ? each.promised_mib : each.observed_mib;
      rooms[each.task].push_back({gpus[i].uuid, std::min(each.claim_mib, each.promised_mib),
                                  std::max({left_mib + kept(each), own_mib, kLimitStepMib})});
    }
  }
  return rooms;
}

void Starts::FollowPromises(base::Time now) {
  if (options_.limiter.empty() || !options_.mps_memory_limit) return;
  for (auto& [id, limits] : Rooms(now)) {
    const core::TaskRecord& record = *core_.Find(id);
    core::Sharing sharing = record.attempt->sharing;
    if (sharing.group_limit_mib == 0 || record.state != core::TaskState::kRunning) continue;
    std::int64_t limit_mib =
        std::max(sharing.group_limit_mib, GroupLimitMib(record.attempt->placement, 0));
    for (const task::GpuMemoryLimit& each : limits) limit_mib = std::min(limit_mib, each.hard_mib);
    if (std::abs(limit_mib - sharing.group_limit_mib) < kLimitStepMib) continue;
    for (task::GpuMemoryLimit& each : limits) {
      each.hard_mib = limit_mib;
      each.soft_mib = std::min(each.soft_mib, limit_mib);
    }
    if (!launcher_.LimitMemory(id, record.attempt->number, task::LimitWords(limits))) continue;
    base::LogInfo("memory_limit_changed", {{"task", id}, {"limit_mib", limit_mib}});
    sharing.group_limit_mib = limit_mib;
    post_(core::SharingChosen{id, record.attempt->number, std::move(sharing)});
  }
}

// Lists all possible servers, because an earlier carmad may have run with a different
// collocation.mps_servers setting.
std::vector<std::string> Starts::MpsServers() const {
  std::vector<std::string> servers{AllMpsGpus(core_.GpuInfos())};
  for (const core::GpuInfo& gpu : core_.GpuInfos()) servers.push_back(gpu.uuid);
  return servers;
}

task::MpsServerId Starts::MpsServerOf(const task::LaunchOrder& order) const {
  if (options_.mps_servers == task::MpsScope::kGpu)
    return {order.uid, order.gid, order.gpu_uuids.front()};
  const std::string all = AllMpsGpus(core_.GpuInfos());
  if (options_.mps_servers == task::MpsScope::kShared) return task::SharedMpsServer(all);
  return {order.uid, order.gid, all};
}

void Starts::ApplySharing(const core::Sharing& sharing, const core::StartTask& start,
                          task::LaunchOrder& order) const {
  if (sharing.group_limit_mib > 0) {
    std::vector<task::GpuMemoryLimit> limits;
    for (const core::Placement& at : start.placement)
      limits.push_back({Gpu(at).uuid, at.claim_mib, sharing.group_limit_mib});
    order.limiter = options_.limiter;
    order.memory_limits = task::LimitWords(limits);
  }
  const bool client = sharing.method == core::SharingMethod::kMps;
  // A task with exclusive GPUs may run an MPS server for its own processes.
  if (!client && start.alone && order.spec.environment.contains("CUDA_MPS_PIPE_DIRECTORY")) return;
  for (const auto& [name, value] :
       client ? task::MpsClientEnvironment(
                    options_.mps_dir, task::MpsServerNamed(order.uid, order.gid, sharing.server),
                    sharing, order.spec.serve)
              : task::WithoutMpsEnvironment()) {
    order.extra_environment[name] = value;
  }
}

// ---- starts ----

void Starts::Launch(const core::StartTask& start) {
  // An attempt's files are usually removed when its task enters a state without an attempt. A task
  // that ends and restarts in the same turn skips that state, so its files are removed here.
  if (start.attempt > 1) Forget(start.id, start.attempt - 1);
  Result<task::LaunchOrder> order = OrderFor(start);
  if (!order)
    return post_(core::LaunchFailed{start.id, start.attempt, order.error().message, false});
  if (const std::optional<core::Sharing> sharing = PlainSharing(start)) {
    ApplySharing(*sharing, start, *order);
    return launcher_.Start(*std::move(order));
  }
  MpsClient client{start.id, start.attempt, MpsServerOf(*order)};
  client.gpus = order->gpu_uuids;
  if (const core::TaskRecord* record = core_.Find(start.id); options_.sm_partitions && record)
    client.sm_share = record->request->sm_share.value_or(0);
  arranged_[core::Number(start.id)] = {*std::move(order), start, std::nullopt};
  options_.mps->Attach(
      client, [this, id = start.id, attempt = start.attempt](const Result<MpsPlace>& attached) {
        TakeAttached(id, attempt, attached);
      });
}

Result<task::LaunchOrder> Starts::OrderFor(const core::StartTask& start) {
  store::StoredTask stored = CARMA_TRY(store_.Get(start.id));
  task::TaskSpec spec = CARMA_TRY(task::SpecFromJsonText(stored.spec_json));
  task::LaunchOrder order;
  order.id = start.id;
  order.attempt = start.attempt;
  order.attempt_dir = AttemptDir(start.id, start.attempt);
  order.spec = std::move(spec);
  task::EraseInheritedMps(options_.mps_dir, order.spec.environment);
  order.spec.stdout_path = stored.stdout_path;
  order.spec.stderr_path = stored.stderr_path;
  order.uid = stored.record.request->uid;
  order.gid = stored.gid;
  order.user = stored.user;
  order.array = stored.record.request->array;
  for (const core::Placement& at : start.placement) order.gpu_uuids.push_back(Gpu(at).uuid);
  order.extra_environment = options_.task_environment;
  // Without this variable, scontrol or sbatch in a script run with --export=NONE would reach a
  // different carmad or none.
  if (!options_.socket.empty() && !order.spec.environment.contains("CARMA_SOCKET"))
    order.extra_environment.emplace("CARMA_SOCKET", options_.socket);
  // By default, these frameworks allocate all of the GPU's memory and leave none for neighbours.
  // Values set by the user are kept.
  for (const auto& [name, value] : {std::pair("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
                                    std::pair("XLA_PYTHON_CLIENT_PREALLOCATE", "false")}) {
    if (!start.alone && !order.spec.environment.contains(name))
      order.extra_environment.emplace(name, value);
  }
  order.max_output_bytes = options_.max_output_bytes;
  order.output_rotations = options_.output_rotations;
  order.kill_grace = options_.kill_grace;
  order.max_processes = options_.max_processes;
  order.host = stored.record.attempt->host;
  order.cpu_cap = options_.cpu_cap;
  order.cores = CoresOf(stored.record);
  const core::SlotRules& slots = options_.policy.slots;
  order.checkpoint_signal = core::CheckpointSignal(slots, stored.record.request);
  order.checkpoint_notice = slots.notice;
  order.saves = core::KnowsToSave(stored.record);
  store::BooksId books = store_.BooksOf(start.id);
  order.books = std::move(books.id);
  order.books_named = books.named;
  return order;
}

// The task's dedicated cores or, if it has none, all cores that are not dedicated to any task.
// Empty if no task has dedicated cores.
std::string Starts::CoresOf(const core::TaskRecord& record) const {
  const core::HostShare& share = record.attempt->host;
  return share.cores.empty() ? shared_cores_.value_or("") : share.cores;
}

std::string Starts::SharedCores() const {
  const std::map<int, core::TaskId>& owners = core_.Host().owners();
  if (owners.empty()) return "";
  std::vector<int> shared = options_.all_cores;
  std::erase_if(shared, [&](int core) { return owners.contains(core); });
  return base::CpuListText(std::move(shared));
}

void Starts::ShareCores() {
  if (!options_.controls.cores) return;
  std::string shared = SharedCores();
  if (shared == shared_cores_) return;
  shared_cores_ = std::move(shared);
  for (const auto& [id, record] : core_.Tasks()) {
    if (core::HoldsGpus(record.state))
      launcher_.Confine(id, record.attempt->number, CoresOf(record));
  }
}

void Starts::Confine(const core::TaskRecord& record) {
  const std::string cores = CoresOf(record);
  if (options_.controls.cores && !cores.empty())
    launcher_.Confine(record.id, record.attempt->number, cores);
}

void Starts::TakeAttached(core::TaskId id, int attempt, const Result<MpsPlace>& attached) {
  const auto found = arranged_.find(core::Number(id));
  if (found == arranged_.end() || found->second.order.attempt != attempt) return;
  Arranged& arranged = found->second;
  core::Sharing sharing;
  if (attached) {
    sharing = MpsSharing(arranged.start, MpsServerOf(arranged.order), *attached);
  } else {
    sharing.method = core::SharingMethod::kStreams;
    sharing.note = "Without MPS: " + attached.error().message + ".";
    sharing.group_limit_mib = GroupLimitMib(arranged.start.placement, arranged.start.bound_mib);
  }
  ApplySharing(sharing, arranged.start, arranged.order);
  arranged.sharing = sharing;
  post_(core::SharingChosen{id, attempt, std::move(sharing)});
}

void Starts::StartArranged(const core::TaskRecord& record) {
  const auto found = arranged_.find(core::Number(record.id));
  if (found == arranged_.end() || found->second.order.attempt != record.attempt->number ||
      found->second.sharing != record.attempt->sharing ||
      record.state != core::TaskState::kLaunching) {
    return;
  }
  task::LaunchOrder order = std::move(found->second.order);
  arranged_.erase(found);
  launcher_.Start(std::move(order));
}

// ---- stops and ends ----

void Starts::Warn(const core::WarnTask& warn) {
  base::LogInfo("time_limit_near", {{"task", warn.id}, {"attempt", warn.attempt}});
  launcher_.Warn(warn.id, warn.attempt);
}

void Starts::Stop(const core::StopTask& stop) {
  const auto arranged = arranged_.find(core::Number(stop.id));
  if (arranged != arranged_.end() && arranged->second.order.attempt == stop.attempt) {
    arranged_.erase(arranged);
    Detach(stop.id, stop.attempt);
    return post_(core::LaunchFailed{stop.id, stop.attempt, "stopped before it was started", false});
  }
  const core::TaskRecord* record = core_.Find(stop.id);
  const std::string why = record == nullptr ? "" : *record->reason.text;
  if (options_.mps == nullptr || record == nullptr ||
      record->attempt->sharing.method != core::SharingMethod::kMps) {
    return launcher_.Stop(stop.id, stop.attempt, why);
  }
  // Removes the processes from the MPS server first, because killing a client with running work
  // could break the server and thus its neighbours.
  options_.mps->TerminateClients(
      stop.id, stop.attempt,
      [this, id = stop.id](pid_t pid) { return attribution_.Find(pid) == id; },
      [this, stop, why] { launcher_.Stop(stop.id, stop.attempt, why); });
}

void Starts::Detach(core::TaskId id, int attempt) {
  if (options_.mps != nullptr) options_.mps->Detach(id, attempt);
}

void Starts::Forget(core::TaskId id, int attempt) {
  launcher_.Forget(id, attempt, AttemptDir(id, attempt));
}

}  // namespace carma::daemon
