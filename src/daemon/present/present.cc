#include "daemon/present/present.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/gpu_standing.h"
#include "base/text.h"
#include "config/activity_rule.h"
#include "core/policy/slots.h"
#include "core/values/reason_line.h"
#include "daemon/gpus/policy_violations.h"
#include "gpu/counters.h"
#include "task/describe/spec.h"
#include "task/describe/spec_json.h"

namespace carma::daemon {
namespace {

std::optional<std::int64_t> OptionalMs(const std::optional<base::Time>& t) {
  return t ? std::optional(base::ToMs(*t)) : std::nullopt;
}

void TellReason(const core::Reason& reason, api::TaskView& view) {
  view.reason = core::ReasonName(reason.code);
  view.reason_text = reason.text;
}

void AddSpec(const store::StoredTask& stored, api::TaskView& view) {
  const Result<task::TaskSpec> spec = task::SpecButEnvironment(stored.spec_json);
  if (!spec) return;
  view.workdir = spec->workdir;
  view.command = task::ShownCommand(*spec);
  view.array_index = spec->array_index;
  view.comment = spec->comment.value_or("");
  view.container = spec->container.value_or("");
  view.serve = spec->serve;
  if (spec->lease) view.origin = spec->lease_key ? "slurm" : "lease";
  view.parameters.assign(spec->parameters.begin(), spec->parameters.end());
  for (const task::NotifyRule& rule : spec->notify) view.notify.push_back(task::ShownRule(rule));
}

api::GpuStanding StandingOf(const core::GpuView& gpu, const core::PolicyConfig& config) {
  using enum api::GpuStanding;
  if (gpu.LeftAlone()) return kDrained;
  // An administrator who drains a faulty GPU wants to see when its last task has left.
  if (!gpu.healthy && (!gpu.drained || gpu.drained_by_rule)) return kDown;
  if (gpu.drained) return gpu.tasks > 0 ? kDraining : kDrained;
  if (gpu.Idle()) return kIdle;
  const bool shares = core::Shares(config) && (!gpu.mig || config.share_mig);
  return gpu.exclusive_task || (!shares && gpu.tasks > 0) ? kHeld : kShared;
}

api::GpuTaskView PresentResident(const core::Promise& promise, core::GpuIndex gpu, Engine& engine,
                                 const Monitor& monitor) {
  const core::TaskRecord& record = *engine.scheduler().Find(promise.task);
  api::GpuTaskView view;
  view.id = core::Number(record.id);
  view.claim_mib = promise.claim_mib;
  view.promised_mib = promise.promised_mib;
  view.plateau = promise.plateau;
  view.observed_mib = monitor.ObservedMib(gpu, record.id);
  view.peak_mib = record.peak_mib;
  view.sharing = core::SharingMethodName(record.attempt->sharing.method);
  view.idle_since_ms = OptionalMs(record.attempt->idle_since);
  if (const auto* progress = engine.progress().Find(record.id, record.attempt->number))
    view.progress = progress->fraction;
  if (const std::optional<SmShare> share = monitor.ShareOf(gpu, record.id)) {
    view.sm_active = share->sm_active;
    view.sm_active_by = share->by;
  }
  if (const Result<store::StoredTask> stored = engine.store().Get(record.id)) {
    view.user = stored->user;
    view.name = stored->name;
  }
  return view;
}

void AddMetrics(const gpu::Reading& reading, api::GpuView& view) {
  for (const gpu::Counter& counter : gpu::Counters()) {
    if (const std::optional<double>& value = reading.*counter.value) {
      view.metrics.push_back(
          {std::string(counter.name), *value, std::string(base::WordOf(reading.counters))});
    }
  }
  for (const gpu::Gauge& gauge : gpu::Gauges()) {
    if (const std::optional<double>& value = reading.*gauge.value)
      view.metrics.push_back({std::string(gauge.name), *value, "nvml"});
  }
}

void AddActivity(core::GpuIndex gpu, const Engine& engine, const Monitor& monitor,
                 api::GpuView& view) {
  view.sm_active_p95 = monitor.WindowP95(gpu);
  view.sm_active_ewma = monitor.WindowEwma(gpu);
  const std::optional<gpu::Reading>& last = monitor.LastReading(gpu);
  if (!last) return;
  AddMetrics(*last, view);
  view.activity_source = base::WordOf(last->counters);
  if (last->sm_active) return;
  const core::Scheduler& scheduler = engine.scheduler();
  view.activity_rule =
      config::RuleWithoutActivity(scheduler.config(), scheduler.GpuInfos()[core::Number(gpu)].mig);
}

void AddStrangers(const GpuUse& use, const ProcessFaces& faces, api::GpuView& view) {
  view.unattributed_mib = use.unattributed_mib;
  for (const Stranger& stranger : use.strangers) {
    // Labels MPS servers, which serve tasks without belonging to one, and desktop programs, which
    // do not count as foreign processes.
    const char* role = stranger.mps_server ? "MPS server: " : stranger.display ? "display: " : "";
    const ProcessFace& face = faces.Of(stranger);
    view.foreign.push_back(
        {stranger.process.pid, face.user, role + face.command, stranger.used_mib});
  }
}

api::GpuView PresentOne(const core::GpuView& gpu, Engine& engine, const Monitor& monitor,
                        base::Time now) {
  const gpu::DeviceInfo& device = monitor.devices().at(core::Number(gpu.index));
  api::GpuView view;
  view.index = core::Number(gpu.index);
  view.uuid = device.uuid;
  view.name = device.name;
  view.state = base::WordOf(StandingOf(gpu, engine.scheduler().config()));
  view.trouble = gpu.trouble;
  view.total_mib = device.total_mib;
  view.pace = gpu.pace;
  view.reserved_mib = device.reserved_mib;
  view.claimed_mib = gpu.claimed_mib;
  view.promised_mib = gpu.promised_mib;
  view.foreign_mib = gpu.foreign_mib;
  view.free_mib = gpu.free_mib;
  view.foreign_processes = gpu.foreign_processes;
  view.sm_active = monitor.WindowMean(gpu.index);
  if (const std::optional<gpu::Reading>& last = monitor.LastReading(gpu.index)) {
    view.used_mib = last->used_mib;
    view.sm_active_now = last->sm_active;
    view.power_w = last->power_w;
    view.energy_j = last->energy_j;
    view.temperature_c = last->temperature_c;
    view.sample_age_ms = (now - last->taken).count();
  }
  view.drained_by_rule = gpu.drained_by_rule;
  if (gpu.empty_by) view.leave_by_ms = base::ToMs(*gpu.empty_by);
  view.alerts = monitor.Alerts(gpu.index);
  AddActivity(gpu.index, engine, monitor, view);
  AddStrangers(monitor.Use(gpu.index), engine.faces(), view);
  for (const core::ReservedPeriod* period : gpu.booked) {
    view.reserved.push_back({.id = core::Number(period->booking.id),
                             .whom = core::WhomFor(period->booking),
                             .why = period->booking.why,
                             .from_ms = base::ToMs(period->from),
                             .to_ms = base::ToMs(period->to),
                             .holds = period->from <= now});
    if (period->from > now) break;  // shows the current period and the next
  }
  const std::vector<core::GpuInfo>& infos = engine.scheduler().GpuInfos();
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (std::ranges::find(device.linked_to, infos[i].uuid) != device.linked_to.end())
      view.linked_to.push_back(static_cast<std::int64_t>(i));
  }
  if (device.mig) {
    view.mig_profile = device.mig->profile_name;
    view.mig_parent = device.mig->parent_uuid;
  }
  for (const core::Promise& promise : engine.scheduler().PromisesOn(gpu.index, now))
    view.tasks.push_back(PresentResident(promise, gpu.index, engine, monitor));
  return view;
}

void TellTimes(const core::TaskRecord& record, api::TaskView& view) {
  view.submitted_ms = base::ToMs(record.submitted);
  const bool waits = !core::IsFinal(record.state) && !core::HoldsGpus(record.state);
  if (waits) {
    view.waiting_since_ms =
        base::ToMs(record.attempt->number > 0 ? record.queued_since : record.submitted);
  }
  view.first_start_ms = OptionalMs(record.first_start);
  const std::optional<core::Time> launched = record.attempt->launched;
  view.launched_ms = OptionalMs(launched);
  if (launched && record.queued_since > *launched)
    view.attempt_ended_ms = base::ToMs(record.queued_since);
  view.ended_ms = OptionalMs(record.ended);
}

// Fills in the task's shares of its GPUs, and of the server's cores and memory.
void TellShares(const core::TaskRecord& record, api::TaskView& view) {
  view.sharing = core::SharingMethodName(record.attempt->sharing.method);
  view.memory_limit_mib = record.attempt->sharing.memory_limit_mib;
  view.group_limit_mib = record.attempt->sharing.group_limit_mib;
  view.thread_percent = record.attempt->sharing.thread_percent;
  view.partition_sms = record.attempt->sharing.partition_sms;
  view.sharing_note = record.attempt->sharing.note;
  view.sm_share = record.request->sm_share;
  view.max_slowdown = record.request->max_slowdown;
  const core::HostShare& share = record.attempt->host;
  if (share.cpus > 0 || record.request->cpus)
    view.cpus = share.cpus > 0 ? share.cpus : *record.request->cpus;
  if (share.memory_mib > 0 || record.request->host_memory_mib)
    view.host_memory_mib =
        share.memory_mib > 0 ? share.memory_mib : *record.request->host_memory_mib;
  view.own_cpus = record.request->own_cpus;
  view.own_cores = share.cores;
}

}  // namespace

api::TaskView Present(const store::StoredTask& stored) {
  const core::TaskRecord& record = stored.record;
  api::TaskView view;
  view.id = core::Number(record.id);
  view.name = stored.name;
  view.user = stored.user;
  view.uid = record.request->uid;
  view.state = core::TaskStateName(record.state);
  TellReason(record.reason, view);
  view.gpus = record.request->gpus;
  view.gpu_type = record.request->gpu_type.value_or("");
  view.gpu_memory_min_mib = record.request->gpu_memory_min_mib;
  view.on_gpus = record.request->on_gpus;
  view.not_on_gpus = record.request->not_on_gpus;
  view.linked_gpus = record.request->linked_gpus;
  for (const core::Placement& placement : record.attempt->placement) {
    view.gpu_indices.push_back(core::Number(placement.gpu));
    view.claim_mib = std::max(view.claim_mib, placement.claim_mib);
    if (placement.claim_mib < view.claim_mib) view.others_claim_mib = placement.claim_mib;
  }
  view.gpu_uuids = stored.gpu_uuids;
  if (record.estimate) {
    view.predicted_mib = record.estimate->predicted_mib.value_or(record.estimate->peak_mib);
    view.bound_mib = record.estimate->peak_mib;
    view.estimate_method = record.estimate->method;
  }
  view.peak_mib = record.peak_mib;
  view.exclusive = record.request->exclusive;
  view.priority = record.request->priority;
  view.account = record.request->account.value_or("");
  view.qos = core::QosOf(record.request);
  view.attempt = record.attempt->number;
  view.ooms = record.ooms;
  view.queue = base::WordOf(record.queue);
  TellTimes(record, view);
  if (record.request->time_limit) view.time_limit_s = base::Seconds(*record.request->time_limit);
  if (core::IsFinal(record.state) && record.attempt->started &&
      record.exit->kind != core::ExitKind::kLost) {
    if (record.exit->signal != 0) {
      view.signal = record.exit->signal;
    } else {
      view.exit_code = record.exit->code;
    }
  }
  view.exit_detail = record.exit->detail;
  TellShares(record, view);
  view.idle_since_ms = OptionalMs(record.attempt->idle_since);
  view.checkpoint_signal = record.request->checkpoint_signal.value_or("");
  view.no_slots = record.request->no_slots;
  view.checkpoints = record.checkpoints;
  view.leaves_by_ms = OptionalMs(record.attempt->leaves_by);
  view.begin_ms = OptionalMs(record.request->begin);
  for (const core::Dependency& each : record.request->dependencies)
    view.dependencies.push_back(fmt::format("{}:{}", base::WordOf(each.kind), each.task));
  view.placement_reason = record.attempt->placement_reason.text;
  view.stdout_path = stored.stdout_path;
  view.stderr_path = stored.stderr_path;
  if (record.request->array) view.array_id = core::Number(*record.request->array);
  AddSpec(stored, view);
  return view;
}

void HideErrors(api::TaskView& view) {
  view.reason_text = core::PublicText(core::ReasonOfLine(view.reason), view.reason_text);
  view.exit_detail = core::PublicDetail(view.exit_detail);
}

api::TaskView Present(const store::StoredTask& stored, const Engine& engine, const Monitor& monitor,
                      Attribution& attribution, base::Time now) {
  const core::TaskRecord& record = stored.record;
  api::TaskView view = Present(stored);
  if (!core::IsFinal(record.state)) TellReason(engine.scheduler().ReasonFor(record.id, now), view);
  if (const auto* progress = engine.progress().Find(record.id, record.attempt->number);
      progress != nullptr && core::HoldsGpus(record.state))
    view.progress = *progress;
  if (record.state == core::TaskState::kRunning)
    view.turn_ends_ms = OptionalMs(core::TurnEnds(engine.scheduler().config().slots, record));
  if (core::HoldsGpus(record.state)) {
    view.host_note = HostNote(record.attempt->host, engine.controls());
    // Drops GPUs that carmad no longer manages, because they have no number.
    const auto managed = std::ssize(monitor.devices());
    std::erase_if(view.gpu_indices, [&](std::int64_t index) { return index >= managed; });
    for (const core::Placement& placement : record.attempt->placement) {
      view.observed_mib =
          std::max(view.observed_mib.value_or(0), monitor.ObservedMib(placement.gpu, record.id));
    }
    const std::int64_t over_mib =
        OverPromiseMib(record, engine.scheduler().config().margin_mib, monitor);
    if (over_mib > 0) view.over_promise_mib = over_mib;
    for (const core::GpuIndex gpu : WrongGpus(record, monitor))
      view.wrong_gpus.push_back(core::Number(gpu));
  }
  // Small increases in a peak are not stored, but the core sees every sample.
  if (const core::TaskRecord* live = engine.scheduler().Find(record.id))
    view.peak_mib = std::max(view.peak_mib, live->peak_mib);
  if (const std::optional<pid_t> pid = attribution.MainPid(record.id))
    view.pid = static_cast<std::uint64_t>(*pid);
  return view;
}

api::NoticeView Present(const store::Notice& notice) {
  return {.event = notice.event,
          .target = task::ShownTarget(notice.target),
          .state = std::string(base::WordOf(notice.state)),
          .made_ms = base::ToMs(notice.made),
          .tries = notice.tries,
          .text = notice.text};
}

std::vector<api::GpuView> PresentGpus(Engine& engine, const Monitor& monitor, base::Time now) {
  std::vector<api::GpuView> views;
  for (const core::GpuView& gpu : engine.scheduler().Gpus(now))
    views.push_back(PresentOne(gpu, engine, monitor, now));
  return views;
}

api::VerdictView Present(const core::GpuVerdict& each) {
  api::VerdictView view;
  view.gpu = core::Number(each.gpu);
  view.fit = base::WordOf(each.verdict.fit);
  if (each.verdict.reason.code != core::ReasonCode::kNone)
    view.reason = core::ReasonName(each.verdict.reason.code);
  view.reason_text = each.verdict.reason.text;
  view.claimed_mib = each.claimed_mib;
  view.promised_mib = each.promised_mib;
  view.used_mib = each.used_mib;
  return view;
}

api::HostVerdictView Present(const core::HostVerdict& host) {
  api::HostVerdictView view;
  view.fit = base::WordOf(host.verdict.fit);
  if (host.verdict.reason.code != core::ReasonCode::kNone)
    view.reason = core::ReasonName(host.verdict.reason.code);
  view.reason_text = host.verdict.reason.text;
  view.wants_cpus = host.need.cpus;
  view.wants_memory_mib = host.need.memory_mib;
  view.cpus = host.host.cpus;
  view.free_cpus = host.host.free_cpus;
  view.memory_mib = host.host.memory_mib;
  view.free_memory_mib = host.host.free_memory_mib;
  return view;
}

api::HostView PresentHost(const Engine& engine, bool cpu_cap) {
  const core::HostView host = engine.scheduler().Host().View();
  const task::CgroupControls& controls = engine.controls();
  api::HostView view;
  view.cpus = host.cpus;
  view.free_cpus = host.free_cpus;
  view.memory_mib = host.memory_mib;
  view.free_memory_mib = host.free_memory_mib;
  std::vector<std::string> enforced;
  if (controls.cpu) enforced.emplace_back(cpu_cap ? "cores (as a cap)" : "cores (by weight)");
  if (controls.cores) enforced.emplace_back("dedicated cores");
  if (controls.memory) enforced.emplace_back("memory");
  view.enforced = base::Join(enforced, ", ");
  view.not_enforced = HostNote({1, 1, "0"}, controls);
  return view;
}

std::string HostNote(const core::HostShare& share, const task::CgroupControls& controls) {
  std::vector<std::string> missing;
  if (share.cpus > 0 && !controls.cpu) missing.emplace_back("CPU limits");
  if (!share.cores.empty() && !controls.cores) missing.emplace_back("dedicated cores");
  if (share.memory_mib > 0 && !controls.memory) missing.emplace_back("memory limits");
  if (missing.empty()) return "";
  return fmt::format("CARMA cannot enforce {}: {}.", base::Join(missing, " or "), controls.why_not);
}

api::EventView Present(const store::StoredEvent& event) {
  api::EventView view;
  view.sequence = event.sequence;
  view.when_ms = base::ToMs(event.when);
  if (event.task) view.task = core::Number(*event.task);
  view.gpu_uuid = event.gpu_uuid;
  view.what = event.what;
  view.text = event.text;
  return view;
}

namespace {

// An MPS server has one memory limit for all its GPUs, so it can limit memory only if it serves a
// single GPU.
bool MpsLimitsMemory(const config::Settings& settings, const Monitor* monitor) {
  const bool one_gpu = monitor != nullptr && monitor->devices().size() == 1;
  return settings.collocation == core::SharingMethod::kMps && settings.mps_memory_limit &&
         (settings.mps_servers == task::MpsScope::kGpu || one_gpu);
}

std::string MethodLine(const config::Settings& settings, const Monitor* monitor) {
  if (!core::Shares(settings.policy)) return "one task per GPU: nothing is shared";
  if (!settings.collocation) return "mps if NVIDIA's MPS control daemon responds (being checked)";
  if (settings.collocation == core::SharingMethod::kMps) {
    const std::string whose = settings.mps_servers == task::MpsScope::kShared
                                  ? "all users, not isolated from each other,"
                                  : "one user";
    return "mps: tasks of " + whose + " compute on a GPU at the same time. MPS limits " +
           (MpsLimitsMemory(settings, monitor)
                ? "each process's memory to its task's promise and margin, and SMs to --sm-share"
                : "SMs to --sm-share, but not memory") +
           (settings.sm_partitions ? " (dedicated SMs if the driver has SM partitions)" : "");
  }
  std::string line = fmt::format("streams: at most {} task{} per GPU, taking turns on the SMs{}",
                                 settings.policy.max_tasks_per_gpu,
                                 settings.policy.max_tasks_per_gpu == 1 ? "" : "s",
                                 settings.kernel_limits ? "" : ". Their memory is not limited");
  if (!settings.without_mps.empty()) line += fmt::format("; without MPS: {}", settings.without_mps);
  return line;
}

}  // namespace

std::string MemoryLimitsBy(const config::Settings& settings, const Monitor* monitor) {
  if (settings.mps_memory_limit && settings.kernel_limits) return "kernel";
  return MpsLimitsMemory(settings, monitor) ? "mps" : "nobody";
}

std::string PolicyLine(const config::Settings& settings) {
  const core::PolicyConfig& policy = settings.policy;
  std::string line = policy.mapper;
  if (settings.published) line += ", as published (" + *settings.published + ")";
  const auto chosen = [&](std::string_view key) { return settings.chosen.contains(key); };
  if (chosen("policy.min_gain"))
    line += fmt::format(", gain >= {:.0f} %", policy.min_gain.value_or(0) * 100);
  // The SM limit is shown even if policy.sm_cap is not configured, because streams have their own
  // limit, collocation.streams_sm_cap.
  const bool by_streams =
      settings.collocation == core::SharingMethod::kStreams && !settings.published;
  if (chosen("policy.sm_cap") || by_streams) {
    line += policy.sm_cap ? fmt::format(", SM activity <= {:.0f} %", *policy.sm_cap * 100)
                          : ", no limit on SM activity";
  }
  if (chosen("policy.margin")) line += ", margin " + base::FormatMib(policy.margin_mib);
  if (chosen("policy.floor")) {
    line += ", floor " + (policy.floor_share > 0
                              ? fmt::format("{:.3g} % of the GPU", policy.floor_share * 100)
                              : base::FormatMib(policy.floor_mib));
  }
  if (chosen("policy.backfill")) line += fmt::format(", backfill {}", policy.backfill);
  if (chosen("recovery.mode")) {
    line += policy.recovery == core::RecoveryMode::kEscalate ? ", recovery escalate"
                                                             : ", recovery exclusive";
  }
  if (policy.require) line += fmt::format(", require {}", policy.require->text());
  if (policy.order == core::QueueOrder::kFair) line += ", fair-share order";
  if (policy.slots.length) line += ", time slices of " + base::FormatSpan(*policy.slots.length);
  return line;
}

std::string CollocationLine(const config::Settings& settings, const Monitor* monitor) {
  std::string line = MethodLine(settings, monitor);
  if (core::Shares(settings.policy) && MemoryLimitsBy(settings, monitor) == "kernel")
    line += ". The kernel limits the memory of all processes of a task together";
  const bool divided = monitor != nullptr &&
                       std::ranges::any_of(monitor->devices(), [](const gpu::DeviceInfo& device) {
                         return device.mig.has_value();
                       });
  if (!divided) return line;
  line += ". mig: a MIG instance ";
  line += settings.policy.share_mig && core::Shares(settings.policy)
              ? fmt::format("is shared using streams by at most {}",
                            base::Counted(settings.policy.streams_tasks, "task"))
              : "holds one task at a time";
  return line + "; the hardware enforces its memory and SM limits";
}

}  // namespace carma::daemon
