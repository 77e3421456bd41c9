// Why the engine's tasks ended, by their own words, the driver and their MPS server; and what their
// ends teach.
#include <algorithm>

#include "base/log.h"
#include "daemon/engine.h"
#include "estimate/signature.h"
#include "gpu/health.h"
#include "task/verdict/oom_detect.h"

namespace carma::daemon {
namespace {

using base::Result;

// A training program loads its data and its libraries first; its peak comes with the first steps.
constexpr base::Duration kLeastLesson{60'000};

std::string_view Spoken(core::ExitKind kind) {
  switch (kind) {
    case core::ExitKind::kSuccess:
      return "success";
    case core::ExitKind::kFailed:
      return "failed";
    case core::ExitKind::kOutOfMemory:
      return "out_of_memory";
    case core::ExitKind::kHostMemory:
      return "host_memory";
    case core::ExitKind::kVictim:
      return "victim";
    case core::ExitKind::kLost:
      return "lost";
    case core::ExitKind::kGpuFault:
      return "gpu_fault";
    case core::ExitKind::kDeviceFault:
      return "device_fault";
  }
  return "unknown";
}

base::Time LaunchOf(const core::TaskRecord& record) {
  return record.launched.value_or(base::Time{});
}

}  // namespace

bool Engine::NeedsReading(const task::ShimEvent& event, const core::TaskRecord& record) {
  if (!task::SpeaksOfCudaError(event.stderr_tail) && !task::FindGpuFaultText(event.stderr_tail))
    return false;
  return std::ranges::all_of(record.placement, [&](const auto& at) {
    return host_.RecentXids(at.gpu, LaunchOf(record)).empty() && host_.LostGpu(at.gpu).empty();
  });
}

bool Engine::NeedsFate(const task::ShimEvent& event, const core::TaskRecord& record) const {
  return options_.mps != nullptr && record.sharing.method == core::SharingMethod::kMps &&
         !task::FindMpsFaultText(event.stderr_tail);
}

// An end that its own words explain, or nothing can, is told at once. The driver's word on a fault
// comes with its next reading, that on an MPS server from its control daemon.
void Engine::TakeExit(const task::ShimEvent& event) {
  const core::TaskRecord* record = scheduler_.Find(event.id);
  unjudged_[core::Number(event.id)] = event;
  const bool open = record != nullptr && record->attempt == event.attempt && !event.lost &&
                    !event.host_oom && (event.exit_code != 0 || event.signal != 0) &&
                    record->stopping == core::StopCause::kNone &&
                    !task::FindOomText(event.stderr_tail);
  const auto judge = [this, id = event.id, attempt = event.attempt](const MpsFate& fate) {
    Judge(id, attempt, fate);
  };
  if (!open) return judge({});
  std::function<void()> ask = [judge] { judge({}); };
  if (NeedsFate(event, *record)) {
    // After the reading: who is judged first may be blamed for what then hit the others.
    ask = [this, judge, id = event.id, attempt = event.attempt] {
      options_.mps->AskFate(id, attempt, judge);
    };
  }
  if (NeedsReading(event, *record)) return host_.AfterNextReading(std::move(ask));
  ask();
}

void Engine::Judge(core::TaskId id, int attempt, const MpsFate& fate) {
  const auto found = unjudged_.extract(core::Number(id));
  if (!found || found.mapped().attempt != attempt) return;
  const task::ShimEvent& event = found.mapped();
  core::ExitInfo exit = Classify(event, fate);
  base::LogInfo("task_exited", {{"task", id},
                                {"attempt", attempt},
                                {"code", exit.code},
                                {"signal", exit.signal},
                                {"kind", Spoken(exit.kind)},
                                {"detail", exit.detail}});
  if (options_.mps != nullptr) {
    const bool own = exit.kind == core::ExitKind::kGpuFault || exit.kind == core::ExitKind::kFailed;
    if (own && task::FindGpuFaultText(event.stderr_tail)) options_.mps->Blame(id, attempt);
    options_.mps->Leave(id, attempt);
  }
  Post(core::TaskExited{id, attempt, std::move(exit)});
}

bool Engine::HasNeighbours(const core::TaskRecord& record) const {
  const auto shares = [&](const core::TaskRecord& other) {
    return other.id != record.id && core::HoldsGpus(other.state) &&
           std::any_of(other.placement.begin(), other.placement.end(), [&](const auto& at) {
             return std::any_of(record.placement.begin(), record.placement.end(),
                                [&](const auto& mine) { return mine.gpu == at.gpu; });
           });
  };
  return std::any_of(scheduler_.Tasks().begin(), scheduler_.Tasks().end(),
                     [&](const auto& each) { return shares(each.second); });
}

void Engine::NoteFaults(const core::TaskRecord& record, task::ExitEvidence& evidence) {
  for (const core::Placement& placement : record.placement) {
    for (const int xid : host_.RecentXids(placement.gpu, LaunchOf(record))) {
      const gpu::XidFact fact = gpu::DescribeXid(xid);
      std::string text = "Xid " + std::to_string(xid) + ": " + std::string(fact.text);
      if (fact.meaning == gpu::XidClass::kTask)
        evidence.program_fault = std::move(text);
      else if (fact.meaning != gpu::XidClass::kNews)
        evidence.device_fault = std::move(text);
    }
    // A GPU that has gone tells no Xid.
    if (evidence.device_fault.empty()) evidence.device_fault = host_.LostGpu(placement.gpu);
  }
  if (!evidence.program_fault.empty()) evidence.neighbours = HasNeighbours(record);
}

core::ExitInfo Engine::Classify(const task::ShimEvent& event, const MpsFate& fate) {
  task::ExitEvidence evidence;
  evidence.exit_code = event.exit_code;
  evidence.signal = event.signal;
  evidence.lost = event.lost;
  evidence.host_oom = event.host_oom;
  evidence.stderr_tail = event.stderr_tail;
  evidence.server_broke = fate.broke || fate.blamed;
  evidence.neighbour_blamed = fate.blamed.has_value();
  if (const core::TaskRecord* record = scheduler_.Find(event.id)) {
    evidence.stopped_by_us = record->stopping != core::StopCause::kNone;
    for (const core::Placement& placement : record->placement) {
      const std::optional<double> full = host_.RecentFullness(placement.gpu);
      if (full) evidence.device_full = std::max(evidence.device_full.value_or(0), *full);
    }
    NoteFaults(*record, evidence);
  }
  return task::ClassifyExit(evidence);
}

// ---- what is learned from it ----

void Engine::NoteEnd(core::TaskId id, int attempt) {
  const core::TaskRecord* record = scheduler_.Find(id);
  if (!options_.history || record == nullptr || record->attempt != attempt || !record->started ||
      record->placement.empty()) {
    return;
  }
  const core::GpuIndex gpu = record->placement.front().gpu;
  ended_[core::Number(id)] = {scheduler_.GpuInfos().at(core::Number(gpu)).type,
                              clock_.Now() - std::max(*record->started, opened_)};
}

// A peak teaches if the run was watched for long enough to have reached it and nothing speaks
// against the measurement; a run that ended for lack of memory teaches that this much was not
// enough.
std::optional<task::Observation> Engine::Lesson(const core::TaskRecord& record) {
  const auto attempt = ended_.extract(core::Number(record.id));
  if (!attempt || record.peak_mib <= 0 || unclear_.contains(core::Number(record.id)))
    return std::nullopt;
  const bool ran_out = record.exit.kind == core::ExitKind::kOutOfMemory;
  const bool full_run =
      (record.state == core::TaskState::kSucceeded || record.state == core::TaskState::kTimedOut) &&
      attempt.mapped().watched >= kLeastLesson;
  if (!ran_out && !full_run) return std::nullopt;
  Result<store::StoredTask> stored = store_.Get(record.id);
  Result<task::TaskSpec> spec =
      stored ? task::SpecFromJsonText(stored->spec_json) : std::unexpected(stored.error());
  Result<std::optional<store::Forecast>> forecast = store_.ForecastOf(record.id);
  if (!spec || !forecast) return std::nullopt;  // told when the task was started from them
  const store::Forecast known = forecast->value_or(store::Forecast{});
  task::Observation lesson;
  lesson.task = record.id;
  lesson.when = clock_.Now();
  lesson.uid = record.request.uid;
  lesson.signature = estimate::Signature(*spec, lesson.uid, known.model);
  lesson.kin = estimate::Kin(*spec, lesson.uid);
  lesson.gpu_type = attempt.mapped().gpu_type;
  if (record.estimate) {
    lesson.method = record.estimate->method;
    lesson.predicted_mib = record.estimate->predicted_mib.value_or(record.estimate->peak_mib);
    lesson.promised_mib = record.estimate->peak_mib;
  }
  lesson.measured_mib = record.peak_mib;
  lesson.ran_out = ran_out;
  lesson.formula = known.formula;
  return lesson;
}

}  // namespace carma::daemon
