// Tasks for store tests and benchmarks.
#pragma once

#include <string>

#include "store/store.h"

namespace carma::store {

// Every field differs from its default, so that a test notices a forgotten column.
inline StoredTask FullTask(std::uint64_t id) {
  StoredTask task;
  core::TaskRecord& r = task.record;
  core::TaskRequest& request = r.request.Edit();
  core::Attempt& attempt = r.attempt.Edit();
  r.id = core::TaskId{id};
  request.gpus = 3;
  request.memory_mib = 12'345;
  request.exclusive = true;
  request.sm_share = 0.35;
  request.max_slowdown = 1.75;
  request.cpus = 6;
  request.host_memory_mib = 54'321;
  request.own_cpus = true;
  request.gpu_type = "a100";
  request.gpu_memory_min_mib = 40'000;
  request.on_gpus = {"1", "GPU-7"};
  request.not_on_gpus = {"0"};
  request.linked_gpus = true;
  request.no_slots = true;
  request.checkpoint_signal = "USR1";
  request.priority = -7;
  request.uid = 4'294'967'294U;
  request.begin = base::FromMs(1'700'000'000'001);
  request.dependencies = {
      {core::TaskId{5}, core::DependencyKind::kAfterAny, core::TaskState::kOutOfMemory},
      {core::TaskId{6}, core::DependencyKind::kAfterNotOk, std::nullopt}};
  request.account = "vision";
  request.qos = "background";
  request.time_limit = core::Duration(3'600'500);
  request.signal_before = core::Duration(90'500);
  request.max_recoveries = 9;
  request.requeue = false;
  request.held = true;
  request.array = core::TaskId{77};
  request.array_limit = 4;
  r.state = core::TaskState::kStopping;
  r.queue = core::QueueKind::kRecovery;
  r.held = true;
  r.reason = {core::ReasonCode::kVictim, "a neighbour's fault; \"quoted\", ümläut"};
  r.estimate = core::Estimate{9'999, "rad", 8'765};
  r.kind = core::KindId{(std::uint64_t{1} << 63) - 1};
  r.profile = core::Profile{.sm_active = 0.45,
                            .mps = core::MpsParameters{0.8, 0.3},
                            .grain = 0.47,
                            .cpus = 6.5,
                            .others_share = 0.625,
                            .alone = core::Duration(7'000'001)};
  r.seen = core::Profile{.sm_active = 0.55, .alone = core::Duration(7'100'003)};
  attempt.number = 4;
  r.ooms = 2;
  r.launch_failures = 1;
  r.node_failures = 3;
  r.victim_restarts = 5;
  r.checkpoints = 6;
  r.cut_off = 1;
  r.retry_free_mib = 20'000;
  r.retry_on_idle_gpu = true;
  r.not_before = base::FromMs(1'700'000'000'002);
  attempt.placement = {{core::GpuIndex{1}, 11'000}, {core::GpuIndex{7}, 0}, {core::GpuIndex{2}, 5}};
  attempt.placement_reason = {core::ReasonCode::kResources, "most free memory"};
  attempt.stopping = core::StopCause::kGpuLost;
  attempt.sharing = {core::SharingMethod::kMps,       13'000, 35, "GPU-7/Dx4", 56, "GPU-7,GPU-8",
                     "GPU 7 is shared using streams", 14'000};
  attempt.host = {6, 54'321, "0-3,8,10"};
  attempt.idle_since = base::FromMs(1'700'000'000'009);
  attempt.warned = base::FromMs(1'700'000'000'010);
  attempt.slot_notice = base::FromMs(1'700'000'000'011);
  attempt.notice_cause = core::StopCause::kPreempted;
  attempt.leaves_by = base::FromMs(1'700'000'000'012);
  r.submitted = base::FromMs(1'700'000'000'003);
  r.queued_since = base::FromMs(1'700'000'000'004);
  r.first_start = base::FromMs(1'700'000'000'005);
  attempt.launched = base::FromMs(1'700'000'000'006);
  attempt.started = base::FromMs(1'700'000'000'007);
  r.ended = base::FromMs(1'700'000'000'008);
  r.exit = core::ExitInfo{core::ExitKind::kHostMemory, 137, 9, "Killed"};
  r.peak_mib = 8'888;
  task.gid = 4'294'967'293U;
  task.user = "ada";
  task.name = "train-räsnet";
  task.spec_json = R"({"command":["python","train.py"]})";
  task.gpu_uuids = {"GPU-1", "GPU-7", "GPU-2"};
  task.stdout_path = "/home/ada/out";
  task.stderr_path = "/home/ada/err";
  return task;
}

// A description like those sent by `carma submit`: most of it is the environment.
inline std::string SampleSpec(std::uint64_t id, std::size_t environment_bytes) {
  static std::string environment;
  static std::size_t made_bytes = std::string::npos;
  if (made_bytes != environment_bytes) {
    environment = "\"environment\":{";
    for (std::uint64_t i = 0; environment.size() < environment_bytes; ++i) {
      environment += "\"VARIABLE_" + std::to_string(i) + "\":\"/opt/software/" +
                     std::to_string(i * 2'654'435'761U) + "/bin\",";
    }
    environment += "\"_\":\"\"}";
    made_bytes = environment_bytes;
  }
  return "{\"array_index\":" + std::to_string(id) +
         ",\"command\":[\"python\",\"train.py\",\"--seed\",\"" + std::to_string(id * 7) + "\"]," +
         environment + ",\"name\":\"train\",\"workdir\":\"/home/ada\"}";
}

// A task that has just been submitted.
inline StoredTask NewTask(std::uint64_t id, std::size_t environment_bytes = 2'000) {
  StoredTask task;
  task.record.id = core::TaskId{id};
  task.record.state = core::TaskState::kQueued;
  task.record.submitted = task.record.queued_since =
      base::FromMs(1'700'000'000'000 + static_cast<std::int64_t>(id));
  task.record.request.Edit().uid = 1000;
  task.user = "ada";
  task.name = "train";
  task.spec_json = SampleSpec(id, environment_bytes);
  task.stdout_path = task.stderr_path = "/home/ada/carma-" + std::to_string(id) + ".out";
  return task;
}

inline StoredTask FinishedTask(std::uint64_t id, std::size_t environment_bytes = 2'000) {
  StoredTask task = NewTask(id, environment_bytes);
  task.record.state = core::TaskState::kSucceeded;
  task.record.attempt.Edit().placement = {{core::GpuIndex{0}, 12'000}};
  task.gpu_uuids = {"GPU-5f1c0a3e-7b1d-4a55-9a53-0d8a9f3b2c01"};
  task.record.attempt.Edit().number = 1;
  task.record.first_start = task.record.attempt.Edit().launched =
      task.record.submitted + core::Duration(10'000);
  task.record.attempt.Edit().started = task.record.submitted + core::Duration(10'050);
  task.record.ended = task.record.submitted + core::Duration(610'000);
  return task;
}

}  // namespace carma::store
