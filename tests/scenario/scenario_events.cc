#include "tests/scenario/scenario_events.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/text.h"

namespace carma::sim {
namespace {

using core::TaskId;

std::vector<std::string> Names(ClauseReader& in, const std::string& option) {
  std::vector<std::string> names;
  const std::string text = in.Text(option);
  if (text.empty() || text == "any") return names;
  for (const std::string_view each : base::Split(text, ',')) names.emplace_back(each);
  return names;
}

// Sets the task's choice of GPUs; "any" removes an earlier choice.
void SetChoice(ClauseReader& in, core::TaskRequest& request) {
  if (in.Has("type")) {
    request.gpu_type = in.Text("type");
    if (request.gpu_type == "any") request.gpu_type.reset();
  }
  if (in.Has("min_mib")) request.gpu_memory_min_mib = in.OptionalInt("min_mib", 1, kMaxMib);
  if (in.Has("on")) request.on_gpus = Names(in, "on");
  if (in.Has("not_on")) request.not_on_gpus = Names(in, "not_on");
}

}  // namespace

core::Sharing SharingOf(ClauseReader& in) {
  const std::optional<core::SharingMethod> method = base::FromWord<core::SharingMethod>(in.Word(1));
  if (!method) in.Complain("expected alone, streams, mps or mig");
  return {.method = method.value_or(core::SharingMethod::kUnknown),
          .memory_limit_mib = in.Int("limit_mib", 0, kMaxMib, 0),
          .thread_percent = static_cast<int>(in.Int("threads", 0, 100, 0)),
          .note = in.Text("note")};
}

core::Time Since(ClauseReader& in) {
  const std::optional<base::Duration> since = in.Span("since");
  if (!since) in.Complain("expected since=TIME");
  return core::Time{since.value_or(base::Duration{0})};
}

std::vector<core::Event> ScenarioEvents::Of(const Clause& clause, ClauseReader& in) {
  const std::string& verb = clause.verb;
  if (verb == "submit") return Submit(in);
  if (verb == "use") return Use(clause, in);
  if (verb == "cores") return Cores(clause, in);
  if (verb == "silent" || verb == "speaks") {
    world_.Gpu(in.Gpu(world_.size())).silent = verb == "silent";
    return {};
  }
  if (verb == "health") {
    const bool lost = in.Flag("lost");
    return {core::GpuHealthChanged{in.Gpu(world_.size()), !lost && in.YesNo("healthy", true), lost,
                                   in.Text("text")}};
  }
  if (verb == "drain") {
    core::DrainRequested drain{in.Gpu(world_.size()), in.Text("why"), in.Flag("rule")};
    if (in.Flag("upgrade")) drain.why = std::string(core::kDriverUpgradeText) + drain.why;
    if (const auto by = in.Span("by")) drain.empty_by = core::Time{*by};
    return {std::move(drain)};
  }
  if (verb == "resume") {
    return {core::ResumeRequested{in.Gpu(world_.size()), in.Flag("rule")}};
  }
  if (verb == "close") {
    return {
        core::ServerClosed{in.Text("why"), core::Time{in.Span("by").value_or(base::Duration{0})}}};
  }
  if (verb == "open") return {core::ServerOpened{}};
  if (verb == "host") {
    return {core::HostDiscovered{HostOf(static_cast<int>(in.Int("cpus", 1, core::kMaxCpus, 1)),
                                        in.Int("mib", 1, kMaxMib, 1))}};
  }
  if (verb == "reserve" || verb == "unreserve") return Reserve(verb, in);
  if (verb == "policy") {
    core::PolicyConfig policy = ChangedPolicy(shell_.scheduler().config(), in, clause);
    // Return no event after an error, so that an invalid policy never reaches the core.
    if (in.error() || core::Shares(policy) != core::Shares(shell_.scheduler().config())) {
      in.Complain("expected valid rules that keep the sharing method");
      return {};
    }
    return {core::PolicyChanged{std::move(policy)}};
  }
  const TaskId id = in.Task();
  if (verb == "estimate") {
    if (in.Has("need_mib")) need_mib_[id] = in.OptionalInt("need_mib", 0, kMaxMib);
    return {Answer(id)};
  }
  if (verb == "started") return Started(id, in);
  if (verb == "launch_failed") {
    return {core::LaunchFailed{id, seen_.attempt[id], "fork failed",
                               in.Flag("retryable") || in.Flag("exhausted"), false,
                               in.Flag("exhausted")}};
  }
  if (verb == "sharing") return {core::SharingChosen{id, seen_.attempt[id], SharingOf(in)}};
  if (verb == "idle") return {core::TaskIdle{id, seen_.attempt[id], Since(in)}};
  if (verb == "busy") return {core::TaskIdle{id, seen_.attempt[id], std::nullopt}};
  if (verb == "exit") return Exit(id, in);
  if (verb == "cancel") return {core::CancelRequested{id, "alice"}};
  if (verb == "hold") return {core::HoldRequested{id}};
  if (verb == "release") return {core::ReleaseRequested{id}};
  if (verb == "requeue") return {core::RequeueRequested{id}};
  if (verb == "edit") return Edit(id, in);
  const std::optional<std::int64_t> priority = base::ParseInt(in.Word(1));
  if (!priority) in.Complain("expected a whole number");
  return {core::PriorityChanged{id, priority.value_or(0)}};
}

std::vector<core::Event> ScenarioEvents::Submit(ClauseReader& in) {
  core::TaskRequest request{.gpus = static_cast<int>(in.Int("gpus", 0, 1000, 1)),
                            .memory_mib = in.OptionalInt("need_mib", 0, kMaxMib),
                            .host_memory_mib = in.OptionalInt("host_mib", 1, kMaxMib),
                            .own_cpus = in.Flag("own_cpus"),
                            .exclusive = in.Flag("exclusive"),
                            .sm_share = in.Fraction("sm_share"),
                            .max_slowdown = in.Fraction("max_slowdown"),
                            .priority = in.Int("priority", -kMaxCount, kMaxCount, 0),
                            .time_limit = in.Span("time_limit"),
                            .signal_before = in.Span("signal_before"),
                            .max_recoveries = static_cast<int>(in.Int("max_recoveries", 0, 99, 3)),
                            .requeue = in.YesNo("requeue", true),
                            .no_slots = in.Flag("no_slots"),
                            .held = in.Flag("held")};
  if (in.Has("cpus")) request.cpus = static_cast<int>(in.Int("cpus", 1, core::kMaxCpus, 1));
  request.user = in.Text("user");
  if (!request.user.empty()) {
    const auto number = static_cast<std::uint32_t>(1001 + uids_.size());
    request.uid = uids_.try_emplace(request.user, number).first->second;
  }
  if (in.Has("account")) request.account = in.Text("account");
  if (in.Has("checkpoint")) request.checkpoint_signal = in.Text("checkpoint");
  SetChoice(in, request);
  request.linked_gpus = in.Flag("linked");
  if (in.Has("qos")) request.qos = in.Text("qos");
  if (const auto begin = in.Span("begin")) request.begin = core::Time{*begin};
  for (const auto& [kind, option] : core::kDependencyWords) {
    for (const TaskId id : in.TaskList(std::string(option)))
      request.dependencies.push_back(Depends(id, kind));
  }
  core::Profile profile{.sm_active = in.Fraction("sm_active"), .alone = in.Span("alone")};
  if (const std::optional<std::int64_t> cpus = in.OptionalInt("busy_cpus", 1, 1'000))
    profile.cpus = static_cast<double>(*cpus);
  if (const std::optional<double> sensitivity = in.Fraction("sensitivity")) {
    profile.mps = {.sensitivity = *sensitivity, .pressure = in.Fraction("pressure").value_or(0)};
  }
  profile.grain = in.Fraction("grain");
  profile.others_share = in.Fraction("others");
  std::vector<core::Event> events;
  for (const TaskId id : in.Tasks()) {
    profile_[id] = profile;
    need_mib_[id] = request.memory_mib;
    if (in.Text("estimate") == "later") later_.insert(id);
    const std::optional<std::int64_t> likely_mib = in.OptionalInt("likely_mib", 1, kMaxMib);
    if (in.Flag("predicted") || likely_mib)
      likely_mib_[id] = likely_mib.value_or(request.memory_mib.value_or(0));
    kind_[id] = core::KindId{static_cast<std::uint64_t>(in.Int("kind", 0, kMaxCount, 0))};
    const std::vector<TaskId> by = in.TaskList("by");
    events.emplace_back(
        core::TaskSubmitted{id, request, by.empty() ? std::nullopt : std::optional(by.front())});
  }
  return events;
}

std::vector<core::Event> ScenarioEvents::Reserve(const std::string& verb, ClauseReader& in) {
  const std::optional<std::int64_t> number = base::ParseInt(in.Word(0));
  const std::optional<base::Duration> from = in.Span("from"), to = in.Span("to");
  if (!number || (verb == "reserve" && (!from || !to || *to <= *from))) {
    in.Complain("expected a number, from=TIME and a later to=TIME");
    return {};
  }
  const core::ReservationId id{static_cast<std::uint64_t>(*number)};
  std::erase_if(booked_, [id](const core::ReservedPeriod& each) { return each.booking.id == id; });
  if (verb == "reserve") {
    core::Reservation booking{.id = id,
                              .made_by = "test",
                              .users = Names(in, "for"),
                              .accounts = Names(in, "account"),
                              .classes = Names(in, "class"),
                              .on_gpus = Names(in, "on"),
                              .from = core::Time{*from},
                              .length = *to - *from,
                              .why = in.Text("why")};
    if (in.Has("type")) booking.gpu_type = in.Text("type");
    if (in.Has("count")) booking.count = static_cast<int>(in.Int("count", 1, 1000, 1));
    booked_.push_back({booking, core::Time{*from}, core::Time{*to}});
  }
  return {core::ReservationsChanged{booked_}};
}

// Values not given in the clause stay the same.
std::vector<core::Event> ScenarioEvents::Edit(TaskId id, ClauseReader& in) {
  const core::TaskRecord* record = shell_.scheduler().Find(id);
  core::TaskRequest request = record == nullptr ? core::TaskRequest{} : *record->request;
  request.gpus = static_cast<int>(in.Int("gpus", 0, 1000, request.gpus));
  if (in.Has("need_mib"))
    request.memory_mib = need_mib_[id] = in.OptionalInt("need_mib", 0, kMaxMib);
  SetChoice(in, request);
  request.exclusive |= in.Flag("exclusive");
  if (in.Has("cpus")) request.cpus = static_cast<int>(in.Int("cpus", 1, core::kMaxCpus, 1));
  if (in.Has("host_mib")) request.host_memory_mib = in.OptionalInt("host_mib", 1, kMaxMib);
  request.priority = in.Int("priority", -kMaxCount, kMaxCount, request.priority);
  if (in.Has("time_limit")) request.time_limit = in.Span("time_limit");
  if (in.Has("signal_before")) request.signal_before = in.Span("signal_before");
  if (const auto begin = in.Span("begin")) request.begin = core::Time{*begin};
  if (in.Has("qos")) request.qos = in.Text("qos");
  for (const TaskId each : in.TaskList("afterok"))
    request.dependencies.push_back(Depends(each, core::DependencyKind::kAfterOk));
  return {core::TaskEdited{id, std::move(request)}};
}

// Uses the final state recorded by the shell if the core has dropped the task.
core::Dependency ScenarioEvents::Depends(TaskId id, core::DependencyKind kind) const {
  core::Dependency dependency{.task = id, .kind = kind};
  const auto known = seen_.state.find(id);
  if (known != seen_.state.end() && core::IsFinal(known->second.first)) {
    dependency.known_final = known->second.first;
  }
  return dependency;
}

std::vector<core::Event> ScenarioEvents::Use(const Clause& clause, ClauseReader& in) {
  const core::GpuIndex index = in.Gpu(world_.size());
  ScenarioGpu& gpu = world_.Gpu(index);
  for (const auto& [option, value] : clause.options) {
    if (const auto task = ParseTaskName(option)) {
      gpu.tasks_mib[*task] = in.Int(option, 0, kMaxMib, 0);
    }
  }
  gpu.foreign_mib = in.Int("foreign_mib", -1, kMaxMib, gpu.foreign_mib);
  gpu.foreign_processes =
      static_cast<int>(in.Int("foreign_processes", 0, 1000, gpu.foreign_processes));
  gpu.attributed = in.YesNo("attributed", gpu.attributed);
  if (in.Has("sm")) gpu.sm_active = in.Fraction("sm");
  if (in.Has("util")) gpu.utilization = in.Fraction("util");
  return {world_.Sample(index, shell_.Now())};
}

std::vector<core::Event> ScenarioEvents::Cores(const Clause& clause, ClauseReader& in) {
  core::HostSampled sample{.cpus = static_cast<double>(in.Int("all", 1, core::kMaxCpus, 1)),
                           .used_cpus = static_cast<double>(in.Int("used", 0, core::kMaxCpus, 0))};
  for (const auto& [option, value] : clause.options) {
    if (const auto task = ParseTaskName(option))
      sample.tasks_cpus.emplace_back(*task, in.Int(option, 0, core::kMaxCpus, 0));
  }
  return {sample};
}

std::vector<core::Event> ScenarioEvents::Started(TaskId id, ClauseReader& in) {
  if (const auto use_mib = in.OptionalInt("use_mib", 0, kMaxMib)) {
    for (const core::Placement& each : seen_.placed[id])
      world_.Gpu(each.gpu).tasks_mib[id] = *use_mib;
  }
  return {core::TaskStarted{id, seen_.attempt[id]}};
}

std::vector<core::Event> ScenarioEvents::Exit(TaskId id, ClauseReader& in) {
  constexpr std::pair<std::string_view, core::ExitKind> kKinds[] = {
      {"ok", core::ExitKind::kSuccess},         {"fail", core::ExitKind::kFailed},
      {"oom", core::ExitKind::kOutOfMemory},    {"host_memory", core::ExitKind::kHostMemory},
      {"victim", core::ExitKind::kVictim},      {"lost", core::ExitKind::kLost},
      {"gpu_fault", core::ExitKind::kGpuFault}, {"device_fault", core::ExitKind::kDeviceFault}};
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const auto& each) { return each.first == in.Word(1); });
  if (kind == std::end(kKinds)) {
    in.Complain("expected ok, fail, oom, host_memory, victim, lost, gpu_fault or device_fault");
    return {};
  }
  const int signal = static_cast<int>(in.Int("signal", 0, 64, 0));
  const bool clean = kind->second == core::ExitKind::kSuccess || signal != 0;
  world_.Leave(id);
  return {core::TaskExited{id,
                           seen_.attempt[id],
                           {.kind = kind->second,
                            .code = static_cast<int>(in.Int("code", 0, 255, clean ? 0 : 1)),
                            .signal = signal,
                            .detail = in.Text("detail")},
                           in.Int("tried_mib", 0, kMaxMib, 0)}};
}

std::optional<core::Estimate> ScenarioEvents::Given(TaskId id) const {
  const auto need = need_mib_.find(id);
  if (need == need_mib_.end() || !need->second) return std::nullopt;
  core::Estimate estimate{*need->second, "given"};
  const auto likely = likely_mib_.find(id);
  if (likely != likely_mib_.end()) estimate = {*need->second, "structural", likely->second};
  return estimate;
}
core::EstimateReady ScenarioEvents::Answer(TaskId id) const {
  const auto kind = kind_.find(id);
  const auto profile = profile_.find(id);
  return {id, Given(id), kind == kind_.end() ? core::KindId{} : kind->second,
          profile == profile_.end() ? core::Profile{} : profile->second};
}

}  // namespace carma::sim
