#include "daemon/engine/ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/try.h"
#include "gpu/health.h"
#include "task/verdict/cuda_start.h"

namespace carma::daemon {
namespace {

// A program that cannot initialise CUDA fails within this time after its launch. It spends most of
// that time importing frameworks.
constexpr base::Duration kBeginning{180'000};

base::Time LaunchOf(const core::TaskRecord& record) {
  return record.attempt->launched.value_or(base::Time{});
}

}  // namespace

Ends::Ends(const EngineOptions& options, store::Store& store, const core::Scheduler& core,
           base::Clock& clock, GpuEvidence& gpus, PostEvent post)
    : options_(options),
      store_(store),
      core_(core),
      clock_(clock),
      gpus_(gpus),
      post_(std::move(post)),
      opened_(clock.Now()) {}

Result<Unit> Ends::Open() {
  last_written_ = CARMA_TRY(store_.LastWritten());
  return Unit{};
}

std::optional<base::Time> Ends::EndOf(const task::ShimEvent& event) const {
  if (event.ended_boot_ns != 0) return clock_.TimeAt(event.ended_boot_ns);
  return event.ended_before_adoption ? last_written_ : std::nullopt;
}

void Ends::Forget(core::TaskId id) {
  ended_.erase(core::Number(id));
  unclear_.erase(core::Number(id));
}

// ---- why attempts ended ----

// True if other evidence could still explain why the attempt ended. False if the cause is known:
// the attempt succeeded, was lost, was ended by carmad, or ran out of host or GPU memory.
bool Ends::IsOpen(const task::ShimEvent& event, const core::TaskRecord& record) const {
  return record.attempt->number == event.attempt && !event.lost && !event.host_oom &&
         (event.exit_code != 0 || event.signal != 0) &&
         record.attempt->stopping == core::StopCause::kNone &&
         !task::FindOomText(event.stderr_tail);
}

bool Ends::NeedsReading(const task::ShimEvent& event, const core::TaskRecord& record) {
  if (!task::SpeaksOfCudaError(event.stderr_tail) && !task::FindGpuFaultText(event.stderr_tail))
    return false;
  return std::ranges::all_of(record.attempt->placement, [&](const auto& at) {
    return gpus_.RecentXids(at.gpu, LaunchOf(record)).empty() && gpus_.LostGpu(at.gpu).empty();
  });
}

bool Ends::NeedsMpsEvidence(const task::ShimEvent& event, const core::TaskRecord& record) const {
  return options_.mps != nullptr && record.attempt->sharing.method == core::SharingMethod::kMps &&
         !task::FindMpsFaultText(event.stderr_tail);
}

// The time is measured since the launch, because a short task's start and end may be reported
// together. Tasks that must not be restarted, such as leases, are excluded so that their end is
// recorded as reported.
bool Ends::CouldNotBegin(const task::ShimEvent& event, const core::TaskRecord& record) const {
  return record.request->requeue && record.attempt->launched &&
         !record.attempt->placement.empty() &&
         clock_.Now() - *record.attempt->launched < kBeginning &&
         task::FindCudaStartText(event.stderr_tail).has_value();
}

void Ends::GiveBack(core::TaskId id, int attempt, const std::string& trouble) {
  const auto found = unjudged_.extract(core::Number(id));
  if (!found || found.mapped().attempt != attempt) return;
  base::LogWarn("gpu_unusable", {{"task", id}, {"attempt", attempt}, {"why", trouble}});
  ended_.erase(core::Number(id));
  if (options_.mps != nullptr) options_.mps->Detach(id, attempt);
  post_(core::LaunchFailed{
      .id = id, .attempt = attempt, .text = trouble, .retryable = true, .interrupted = true});
}

// Waits for further evidence if necessary: GPU faults appear in the next driver reading, and MPS
// server faults are reported by the control daemon.
void Ends::Take(const task::ShimEvent& event) {
  const core::TaskRecord* record = core_.Find(event.id);
  if (record != nullptr && record->attempt->number == event.attempt)
    NoteEnd(*record, task::FindAllocatorWords(event.stderr_tail));
  unjudged_[core::Number(event.id)] = event;
  const auto judge = [this, id = event.id, attempt = event.attempt](const MpsEvidence& mps) {
    Judge(id, attempt, mps);
  };
  if (record == nullptr || !IsOpen(event, *record)) return judge({});
  std::function<void()> ask = [judge] { judge({}); };
  if (NeedsMpsEvidence(event, *record)) {
    // The MPS server is queried only after the driver's error reports have been read. Otherwise the
    // first task examined might be blamed for other tasks' faults.
    ask = [this, judge, id = event.id, attempt = event.attempt] {
      options_.mps->AskEvidence(id, attempt, judge);
    };
  }
  if (NeedsReading(event, *record))
    ask = [this, ask = std::move(ask)] { gpus_.AfterNextReading(ask); };
  if (!CouldNotBegin(event, *record)) return ask();
  std::vector<core::GpuIndex> its;
  for (const core::Placement& at : record->attempt->placement) its.push_back(at.gpu);
  gpus_.TryCuda(its, [this, ask = std::move(ask), id = event.id,
                      attempt = event.attempt](const std::string& trouble) {
    trouble.empty() ? ask() : GiveBack(id, attempt, trouble);
  });
}

void Ends::Judge(core::TaskId id, int attempt, const MpsEvidence& mps) {
  const auto found = unjudged_.extract(core::Number(id));
  if (!found || found.mapped().attempt != attempt) return;
  const task::ShimEvent& event = found.mapped();
  core::ExitInfo exit = Classify(event, mps);
  std::vector<base::Field> fields = {{"task", id},
                                     {"attempt", attempt},
                                     {"code", exit.code},
                                     {"signal", exit.signal},
                                     {"kind", base::WordOf(exit.kind)},
                                     {"detail", exit.detail}};
  const core::TaskRecord* record = core_.Find(id);
  if (record != nullptr && record->attempt->stopping != core::StopCause::kNone)
    fields.emplace_back("why", base::WordOf(record->reason.code));
  base::LogInfo("task_exited", fields);
  if (options_.mps != nullptr) {
    const bool own = exit.kind == core::ExitKind::kGpuFault || exit.kind == core::ExitKind::kFailed;
    if (own && task::FindGpuFaultText(event.stderr_tail)) options_.mps->Blame(id, attempt);
    options_.mps->Detach(id, attempt);
  }
  const std::int64_t tried_mib = task::TriedToAllocateMib(exit.detail);
  post_(core::TaskExited{id, attempt, std::move(exit), tried_mib, EndOf(event)});
}

core::ExitInfo Ends::Classify(const task::ShimEvent& event, const MpsEvidence& mps) {
  task::ExitEvidence evidence;
  evidence.exit_code = event.exit_code;
  evidence.signal = event.signal;
  evidence.lost = event.lost;
  evidence.host_oom = event.host_oom;
  evidence.stderr_tail = event.stderr_tail;
  evidence.server_broke = mps.broke || mps.blamed;
  evidence.neighbour_blamed = mps.blamed.has_value();
  if (const core::TaskRecord* record = core_.Find(event.id)) {
    evidence.stopped_by_us = record->attempt->stopping != core::StopCause::kNone;
    for (const core::Placement& at : record->attempt->placement) {
      const std::optional<double> full = gpus_.RecentFullness(at.gpu);
      if (full) evidence.device_full = std::max(evidence.device_full.value_or(0), *full);
    }
    evidence.mps_client = record->attempt->sharing.method == core::SharingMethod::kMps;
    NoteFaults(*record, evidence);
  }
  core::ExitInfo exit = task::ClassifyExit(evidence);
  if (event.untold && exit.detail.empty())
    exit.detail = "its exit code is known only to its parent process";
  if (!event.text.empty()) exit.detail += (exit.detail.empty() ? "" : "; ") + event.text;
  return exit;
}

void Ends::NoteFaults(const core::TaskRecord& record, task::ExitEvidence& evidence) {
  for (const core::Placement& at : record.attempt->placement) {
    for (const int xid : gpus_.RecentXids(at.gpu, LaunchOf(record))) {
      const gpu::XidFact fact = gpu::DescribeXid(xid);
      std::string text = fmt::format("Xid {}: {}", xid, fact.text);
      if (fact.meaning == gpu::XidClass::kTask)
        evidence.program_fault = std::move(text);
      else if (fact.meaning != gpu::XidClass::kNews)
        evidence.device_fault = std::move(text);
    }
    const std::optional<core::TaskId> origin = gpus_.FaultyTask(at.gpu, LaunchOf(record));
    if (origin == record.id) evidence.made_fault = true;
    if (origin && origin != record.id) evidence.fault_of = fmt::format("task {}", *origin);
    // No Xid is reported for a lost GPU, so its last reading is checked too.
    if (evidence.device_fault.empty()) evidence.device_fault = gpus_.LostGpu(at.gpu);
  }
  if (!evidence.program_fault.empty()) evidence.neighbours = HasNeighbours(record);
}

bool Ends::HasNeighbours(const core::TaskRecord& record) const {
  const auto holds = [&](core::GpuIndex gpu, const core::TaskRecord& other) {
    return std::ranges::any_of(other.attempt->placement,
                               [&](const auto& at) { return at.gpu == gpu; });
  };
  return std::ranges::any_of(core_.Tasks(), [&](const auto& each) {
    const core::TaskRecord& other = each.second;
    return other.id != record.id && core::HoldsGpus(other.state) &&
           std::ranges::any_of(record.attempt->placement,
                               [&](const auto& mine) { return holds(mine.gpu, other); });
  });
}

// ---- learning from finished attempts ----

void Ends::Watch(const core::GpuSampled& sampled) {
  if (sampled.sample.attributed) return;
  for (const auto& [task, mib] : sampled.sample.tasks_mib) unclear_.insert(core::Number(task));
}

void Ends::NoteEnd(const core::TaskRecord& record,
                   const std::optional<task::AllocatorWords>& told) {
  if (!options_.history || !record.attempt->started || record.attempt->placement.empty()) return;
  std::vector<core::GpuIndex> its;
  for (const core::Placement& at : record.attempt->placement) its.push_back(at.gpu);
  ended_[core::Number(record.id)] = {estimate::RanOnOf(its, core_.GpuInfos()),
                                     clock_.Now() - std::max(*record.attempt->started, opened_),
                                     told};
}

std::optional<task::Observation> Ends::Learn(const core::TaskRecord& record) {
  const auto attempt = ended_.extract(core::Number(record.id));
  // Attempts with unreliable measurements are not used for learning.
  if (!attempt || unclear_.contains(core::Number(record.id))) return std::nullopt;
  if (!estimate::Teaches(record, attempt.mapped().watched)) return std::nullopt;
  Result<store::StoredTask> stored = store_.Get(record.id);
  Result<task::TaskSpec> spec =
      stored ? task::SpecFromJsonText(stored->spec_json) : std::unexpected(stored.error());
  Result<std::optional<store::Forecast>> forecast = store_.ForecastOf(record.id);
  if (!spec || !forecast) return std::nullopt;  // the start of the task has already reported this
  const store::Forecast known = forecast->value_or(store::Forecast{});
  task::Observation lesson = estimate::LessonOf(record, *spec, attempt.mapped().where, known.model,
                                                known.formula, clock_.Now());
  if (const auto& told = attempt.mapped().told) lesson.allocated_mib = told->allocated_mib;
  return lesson;
}

}  // namespace carma::daemon
