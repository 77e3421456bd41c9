// Plays a scenario: brings its events to a shell and compares what the core asked for.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "base/text.h"
#include "tests/scenario/clause.h"
#include "tests/scenario/scenario.h"
#include "tests/scenario/scenario_world.h"

namespace carma::sim {
namespace {

using base::ErrorCode;
using base::Result;
using base::Unit;
using core::TaskId;

constexpr std::int64_t kMaxMib = std::int64_t{1} << 24;
constexpr std::int64_t kMaxCount = 1'000'000'000;

// An action that a person would call news.
struct News {
  enum class Kind { kStart, kStop, kWarn, kAsk, kQueue, kReject, kEnd };
  Kind kind{};
  TaskId task{};
  core::Time when{};
  core::StartTask start;
  core::StopTask stop;
  core::TaskRecord record;
  bool expected = false;
};

std::string_view KindName(News::Kind kind) {
  switch (kind) {
    case News::Kind::kStart:
      return "start";
    case News::Kind::kStop:
      return "stop";
    case News::Kind::kWarn:
      return "warn";
    case News::Kind::kAsk:
      return "ask";
    case News::Kind::kQueue:
      return "queue";
    case News::Kind::kReject:
      return "reject";
    case News::Kind::kEnd:
      return "end";
  }
  return "";
}

std::string TimeText(core::Time time) {
  return fmt::format("{}s", static_cast<double>(base::ToMs(time)) / 1000.0);
}

std::string Describe(const News& news) {
  std::string text = fmt::format("{} t{}", KindName(news.kind), Number(news.task));
  if (news.kind == News::Kind::kStart) {
    for (const core::Placement& each : news.start.placement) {
      text += fmt::format(" gpu={} claim_mib={}", Number(each.gpu), each.claim_mib);
    }
    text += fmt::format(" attempt={}{}", news.start.attempt, news.start.alone ? " alone" : "");
  } else if (news.kind == News::Kind::kStop) {
    text += fmt::format(" cause={}", base::WordOf(news.stop.cause));
  } else if (news.kind != News::Kind::kWarn && news.kind != News::Kind::kAsk) {
    text += fmt::format(" {}", core::TaskStateName(news.record.state));
    if (news.record.queue == core::QueueKind::kRecovery) text += " recovery";
    if (news.record.retry_on_idle_gpu) text += " exclusive";
    if (news.record.retry_free_mib) {
      text += fmt::format(" free_mib={}", *news.record.retry_free_mib);
    }
    text += fmt::format(" reason={}", core::ReasonName(news.record.reason.code));
  }
  return text + " at=" + TimeText(news.when);
}

// Starts, stops, warnings and rejects must be expected; other news may go unmentioned.
bool Unexpected(const News& news) {
  return !news.expected && (news.kind == News::Kind::kStart || news.kind == News::Kind::kStop ||
                            news.kind == News::Kind::kWarn || news.kind == News::Kind::kAsk ||
                            news.kind == News::Kind::kReject);
}

// What an expectation did not find as it should be; empty: all as expected.
using Mismatch = std::optional<std::string>;

template <class T>
Mismatch Differs(std::string_view what, const T& expected, const T& got) {
  if (expected == got) return std::nullopt;
  return fmt::format("{}: expected {}, got {}", what, expected, got);
}

class Player {
 public:
  Player(const Scenario& scenario, ScenarioShell& shell)
      : scenario_(scenario), shell_(shell), world_(scenario.gpus.size(), scenario.window) {}

  Result<Unit> Play() {
    if (auto opened = shell_.Open(scenario_.policy, scenario_.gpus, scenario_.host); !opened)
      return opened;
    if (auto sampled = Bring(world_.Samples(shell_.Now())); !sampled) return sampled;
    for (const ScenarioLine& line : scenario_.lines) {
      if (!line.continues) {
        if (auto nothing = NothingLeft(); !nothing) return nothing;
      }
      line_ = &line;
      if (auto played = PlayLine(line); !played) return played;
    }
    return NothingLeft();
  }

 private:
  std::unexpected<base::Error> Bad(ErrorCode code, std::string_view what) const {
    return base::Fail(code,
                      fmt::format("{}:{}: {}", scenario_.file, line_ ? line_->number : 0, what));
  }

  Result<Unit> PlayLine(const ScenarioLine& line) {
    if (auto moved = AdvanceTo(line.at); !moved) return moved;
    std::vector<core::Event> events;
    for (const Clause& clause : line.happens) {
      if (clause.verb == "restart") {
        if (auto restarted = Restart(); !restarted) return restarted;
        continue;
      }
      ClauseReader in(clause);
      for (core::Event& event : EventsOf(clause, in)) events.push_back(std::move(event));
      if (in.error()) return Bad(ErrorCode::kInvalid, *in.error());
    }
    if (!events.empty()) {
      if (auto brought = Bring(events); !brought) return brought;
    }
    for (const Clause& clause : line.expects) {
      ClauseReader in(clause);
      const Mismatch wrong = Compare(clause, in);
      if (in.error()) return Bad(ErrorCode::kInvalid, *in.error());
      if (wrong) return Bad(ErrorCode::kConflict, *wrong + Pending());
    }
    if (const auto wrong = shell_.scheduler().CheckBooks()) {
      return Bad(ErrorCode::kConflict, "the books do not balance: " + *wrong);
    }
    return Unit{};
  }

  // ---- bringing events ----

  Result<Unit> AdvanceTo(core::Time when) {
    while (next_sample_ <= when) {
      if (auto moved = shell_.AdvanceTo(next_sample_); !moved) return moved;
      if (auto brought = Bring(world_.Samples(next_sample_)); !brought) return brought;
      next_sample_ += scenario_.sample_period;
    }
    if (auto moved = shell_.AdvanceTo(when); !moved) return moved;
    return AnswerEstimates();
  }

  Result<Unit> Bring(const std::vector<core::Event>& events) {
    if (auto injected = shell_.Inject(events); !injected) return injected;
    return AnswerEstimates();
  }

  Result<Unit> Restart() {
    world_.StartWindows(shell_.Now());
    if (auto restarted = shell_.Restart(); !restarted) return restarted;
    return Bring(world_.Samples(shell_.Now()));
  }

  Result<Unit> AnswerEstimates() {
    while (true) {
      Absorb();
      std::vector<core::Event> answers;
      answers.reserve(asked_.size());
      for (const TaskId id : asked_) answers.emplace_back(Answer(id));
      asked_.clear();
      if (answers.empty()) return Unit{};
      if (auto injected = shell_.Inject(answers); !injected) return injected;
    }
  }

  std::optional<core::Estimate> Given(TaskId id) const {
    const auto need = need_mib_.find(id);
    if (need == need_mib_.end() || !need->second) return std::nullopt;
    core::Estimate estimate{*need->second, "given"};
    if (predicted_.contains(id)) estimate = {*need->second, "structural", *need->second};
    return estimate;
  }
  core::EstimateReady Answer(TaskId id) const {
    const auto kind = kind_.find(id);
    const auto profile = profile_.find(id);
    return {id, Given(id), kind == kind_.end() ? core::KindId{} : kind->second,
            profile == profile_.end() ? core::Profile{} : profile->second};
  }

  void Absorb() {
    for (TimedAction& action : shell_.TakeActions()) {
      if (const auto* asks = std::get_if<core::RequestEstimate>(&action.action)) {
        if (!later_.contains(asks->id)) asked_.push_back(asks->id);
      } else if (const auto* wake = std::get_if<core::WakeAt>(&action.action)) {
        wake_ = wake->when;
      } else if (const auto* start = std::get_if<core::StartTask>(&action.action)) {
        attempt_[start->id] = start->attempt;
        placed_[start->id] = start->placement;
        news_.push_back(
            {.kind = News::Kind::kStart, .task = start->id, .when = action.when, .start = *start});
      } else if (const auto* stop = std::get_if<core::StopTask>(&action.action)) {
        news_.push_back(
            {.kind = News::Kind::kStop, .task = stop->id, .when = action.when, .stop = *stop});
      } else if (const auto* warn = std::get_if<core::WarnTask>(&action.action)) {
        news_.push_back({.kind = News::Kind::kWarn, .task = warn->id, .when = action.when});
      } else if (const auto* ask = std::get_if<core::AskToSave>(&action.action)) {
        news_.push_back({.kind = News::Kind::kAsk, .task = ask->id, .when = action.when});
      } else if (const auto* changed = std::get_if<core::TaskChanged>(&action.action)) {
        Note(changed->record, action.when);
      }
    }
  }

  void Note(const core::TaskRecord& record, core::Time when) {
    const auto known = state_.find(record.id);
    const bool moved = known == state_.end() || known->second.first != record.state ||
                       known->second.second != record.queue;
    state_[record.id] = {record.state, record.queue};
    if (!moved) return;
    News news{.task = record.id, .when = when, .record = record};
    if (record.state == core::TaskState::kQueued) {
      news.kind = News::Kind::kQueue;
    } else if (record.state == core::TaskState::kRejected) {
      news.kind = News::Kind::kReject;
    } else if (core::IsFinal(record.state)) {
      news.kind = News::Kind::kEnd;
    } else {
      return;
    }
    news_.push_back(std::move(news));
  }

  // ---- events by verb ----

  std::vector<core::Event> EventsOf(const Clause& clause, ClauseReader& in) {
    const std::string& verb = clause.verb;
    if (verb == "submit") return Submit(in);
    if (verb == "use") return Use(clause, in);
    if (verb == "silent" || verb == "speaks") {
      world_.Gpu(in.Gpu(world_.size())).silent = verb == "silent";
      return {};
    }
    if (verb == "health") {
      const bool lost = in.Flag("lost");
      return {core::GpuHealthChanged{in.Gpu(world_.size()), !lost && in.YesNo("healthy", true),
                                     lost, in.Text("text")}};
    }
    if (verb == "drain") {
      core::DrainRequested drain{in.Gpu(world_.size()), in.Text("why"), in.Flag("rule")};
      if (const auto by = in.Span("by")) drain.empty_by = core::Time{*by};
      return {std::move(drain)};
    }
    if (verb == "resume") {
      return {core::ResumeRequested{in.Gpu(world_.size()), in.Flag("rule")}};
    }
    if (verb == "close") {
      return {core::ServerClosed{in.Text("why"),
                                 core::Time{in.Span("by").value_or(base::Duration{0})}}};
    }
    if (verb == "open") return {core::ServerOpened{}};
    if (verb == "host") {
      return {core::HostDiscovered{HostOf(static_cast<int>(in.Int("cpus", 1, core::kMaxCpus, 1)),
                                          in.Int("mib", 1, kMaxMib, 1))}};
    }
    if (verb == "reserve" || verb == "unreserve") return Reserve(verb, in);
    if (verb == "policy") {
      core::PolicyConfig policy = ChangedPolicy(shell_.scheduler().config(), in, clause);
      // A mistake ends the play; until then the core must not meet it.
      if (in.error() || core::Shares(policy) != core::Shares(shell_.scheduler().config())) {
        in.Complain("expected sound rules that share as before");
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
      return {core::LaunchFailed{id, attempt_[id], "fork failed",
                                 in.Flag("retryable") || in.Flag("exhausted"), false,
                                 in.Flag("exhausted")}};
    }
    if (verb == "sharing") return {core::SharingChosen{id, attempt_[id], SharingOf(in)}};
    if (verb == "idle") return {core::TaskIdle{id, attempt_[id], Since(in)}};
    if (verb == "busy") return {core::TaskIdle{id, attempt_[id], std::nullopt}};
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

  std::vector<core::Event> Submit(ClauseReader& in) {
    core::TaskRequest request{
        .gpus = static_cast<int>(in.Int("gpus", 0, 1000, 1)),
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
    if (const std::optional<double> sensitivity = in.Fraction("sensitivity")) {
      profile.mps = {.sensitivity = *sensitivity, .pressure = in.Fraction("pressure").value_or(0)};
    }
    profile.grain = in.Fraction("grain");
    std::vector<core::Event> events;
    for (const TaskId id : in.Tasks()) {
      profile_[id] = profile;
      need_mib_[id] = request.memory_mib;
      if (in.Text("estimate") == "later") later_.insert(id);
      if (in.Flag("predicted")) predicted_.insert(id);
      kind_[id] = core::KindId{static_cast<std::uint64_t>(in.Int("kind", 0, kMaxCount, 0))};
      events.emplace_back(core::TaskSubmitted{id, request});
    }
    return events;
  }

  static std::vector<std::string> Names(ClauseReader& in, const std::string& option) {
    std::vector<std::string> names;
    const std::string text = in.Text(option);
    if (text.empty() || text == "any") return names;
    for (const std::string_view each : base::Split(text, ',')) names.emplace_back(each);
    return names;
  }

  std::vector<core::Event> Reserve(const std::string& verb, ClauseReader& in) {
    const std::optional<std::int64_t> number = base::ParseInt(in.Word(0));
    const std::optional<base::Duration> from = in.Span("from"), to = in.Span("to");
    if (!number || (verb == "reserve" && (!from || !to || *to <= *from))) {
      in.Complain("expected a number, from=TIME and a later to=TIME");
      return {};
    }
    const core::BookingId id{static_cast<std::uint64_t>(*number)};
    std::erase_if(booked_, [id](const core::BookedPeriod& each) { return each.booking.id == id; });
    if (verb == "reserve") {
      core::Booking booking{.id = id,
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
    return {core::BookingsTold{booked_}};
  }

  // Which GPUs; "any" takes back what was said.
  static void SetChoice(ClauseReader& in, core::TaskRequest& request) {
    if (in.Has("type")) {
      request.gpu_type = in.Text("type");
      if (request.gpu_type == "any") request.gpu_type.reset();
    }
    if (in.Has("min_mib")) request.gpu_memory_min_mib = in.OptionalInt("min_mib", 1, kMaxMib);
    if (in.Has("on")) request.on_gpus = Names(in, "on");
    if (in.Has("not_on")) request.not_on_gpus = Names(in, "not_on");
  }

  // What is not said stays.
  std::vector<core::Event> Edit(TaskId id, ClauseReader& in) {
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

  // A shell knows how tasks ended that the core has dropped.
  core::Dependency Depends(TaskId id, core::DependencyKind kind) const {
    core::Dependency dependency{.task = id, .kind = kind};
    const auto known = state_.find(id);
    if (known != state_.end() && core::IsFinal(known->second.first)) {
      dependency.known_final = known->second.first;
    }
    return dependency;
  }

  std::vector<core::Event> Use(const Clause& clause, ClauseReader& in) {
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

  std::vector<core::Event> Started(TaskId id, ClauseReader& in) {
    if (const auto use_mib = in.OptionalInt("use_mib", 0, kMaxMib)) {
      for (const core::Placement& each : placed_[id]) world_.Gpu(each.gpu).tasks_mib[id] = *use_mib;
    }
    return {core::TaskStarted{id, attempt_[id]}};
  }

  std::vector<core::Event> Exit(TaskId id, ClauseReader& in) {
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
                             attempt_[id],
                             {.kind = kind->second,
                              .code = static_cast<int>(in.Int("code", 0, 255, clean ? 0 : 1)),
                              .signal = signal,
                              .detail = in.Text("detail")},
                             in.Int("tried_mib", 0, kMaxMib, 0)}};
  }

  static core::Sharing SharingOf(ClauseReader& in) {
    const std::optional<core::SharingMethod> method =
        base::FromWord<core::SharingMethod>(in.Word(1));
    if (!method) in.Complain("expected alone, streams, mps or mig");
    return {.method = method.value_or(core::SharingMethod::kUnknown),
            .memory_limit_mib = in.Int("limit_mib", 0, kMaxMib, 0),
            .thread_percent = static_cast<int>(in.Int("threads", 0, 100, 0)),
            .note = in.Text("note")};
  }

  static core::Time Since(ClauseReader& in) {
    const std::optional<base::Duration> since = in.Span("since");
    if (!since) in.Complain("expected since=TIME");
    return core::Time{since.value_or(base::Duration{0})};
  }

  // ---- expectations by verb ----

  Mismatch Compare(const Clause& clause, ClauseReader& in) {
    const std::string& verb = clause.verb;
    if (verb == "nothing") {
      const bool none = std::none_of(news_.begin(), news_.end(), Unexpected);
      return none ? std::nullopt : Mismatch("expected nothing");
    }
    if (verb == "wake") return CompareWake(in);
    if (verb == "reason") return CompareReason(in);
    if (verb == "state") return CompareState(in);
    if (verb == "latest") return CompareLatest(in);
    if (verb == "sharing") return CompareSharing(in);
    if (verb == "promised") return ComparePromised(in);
    if (verb == "unpromised") return CompareUnpromised(in);
    if (verb == "idle" || verb == "busy") return CompareIdle(verb, in);
    if (verb == "free" || verb == "reserved") return CompareGpu(verb, in);
    const TaskId id = in.Task();
    if (in.error()) return std::nullopt;
    // In the order in which a line names them.
    for (std::size_t i = 0; i < news_.size(); ++i) {
      News& news = news_[i];
      if (news.expected || news.task != id || KindName(news.kind) != verb) continue;
      if (Mismatch wrong = CompareNews(news, in)) {
        return fmt::format("{} t{}: {}", verb, Number(id), *wrong);
      }
      news.expected = true;
      return std::nullopt;
    }
    return fmt::format("expected {} t{}", verb, Number(id));
  }

  Mismatch CompareNews(const News& news, ClauseReader& in) {
    if (const auto at = in.Span("at")) {
      if (news.when != core::Time{*at}) {
        return Differs("at", TimeText(core::Time{*at}), TimeText(news.when));
      }
    }
    if (in.Has("reason")) {
      const std::string got(core::ReasonName(news.record.reason.code));
      if (Mismatch wrong = Differs("reason", in.Text("reason"), got)) return wrong;
    }
    switch (news.kind) {
      case News::Kind::kStart:
        return CompareStart(news.start, in);
      case News::Kind::kStop:
        if (!in.Has("cause")) return std::nullopt;
        return Differs("cause", in.Text("cause"), std::string(base::WordOf(news.stop.cause)));
      case News::Kind::kQueue:
        return CompareQueue(news.record, in);
      case News::Kind::kEnd:
        if (const auto ooms = in.OptionalInt("ooms", 0, 99)) {
          if (*ooms != news.record.ooms)
            return Differs<std::int64_t>("ooms", *ooms, news.record.ooms);
        }
        return Differs("state", in.Word(1), core::TaskStateName(news.record.state));
      case News::Kind::kAsk:
        return CompareAsk(news.task, in);
      case News::Kind::kWarn:
      case News::Kind::kReject:
        break;
    }
    return std::nullopt;
  }

  Mismatch CompareAsk(TaskId id, ClauseReader& in) const {
    const core::TaskRecord* task = shell_.scheduler().Find(id);
    if (task == nullptr) return "the core does not hold the task";
    if (in.Has("cause")) {
      const std::string got(base::WordOf(task->attempt->notice_cause));
      if (Mismatch wrong = Differs("cause", in.Text("cause"), got)) return wrong;
    }
    if (const auto by = in.Span("by")) {
      const std::string got =
          task->attempt->leaves_by ? TimeText(*task->attempt->leaves_by) : "stays";
      return Differs("by", TimeText(core::Time{*by}), got);
    }
    return std::nullopt;
  }

  Mismatch CompareStart(const core::StartTask& start, ClauseReader& in) {
    const std::vector<core::GpuIndex> gpus = in.GpuList(world_.size());
    std::string got;
    std::string expected;
    for (const core::Placement& each : start.placement) got += fmt::format(" {}", Number(each.gpu));
    for (const core::GpuIndex gpu : gpus) expected += fmt::format(" {}", Number(gpu));
    if (!gpus.empty() && got != expected) return Differs("gpu", expected, got);
    if (const auto claim = in.OptionalInt("claim_mib", 0, kMaxMib)) {
      if (Mismatch wrong = Differs("claim_mib", *claim, start.placement.front().claim_mib)) {
        return wrong;
      }
    }
    if (const auto attempt = in.OptionalInt("attempt", 1, 1000)) {
      if (*attempt != start.attempt) {
        return Differs<std::int64_t>("attempt", *attempt, start.attempt);
      }
    }
    if (in.Flag("alone") && !start.alone) return "expected alone";
    if (in.Flag("shared") && start.alone) return "expected shared";
    return std::nullopt;
  }

  static Mismatch CompareQueue(const core::TaskRecord& record, ClauseReader& in) {
    const bool recovery = record.queue == core::QueueKind::kRecovery;
    if (in.Flag("recovery") && !recovery) return "expected the recovery queue";
    if (in.Flag("main") && recovery) return "expected the main queue";
    if (in.Flag("exclusive") && !record.retry_on_idle_gpu) return "expected a retry on an idle GPU";
    if (const auto free_mib = in.OptionalInt("free_mib", 0, kMaxMib)) {
      return Differs("free_mib", *free_mib, record.retry_free_mib.value_or(0));
    }
    return std::nullopt;
  }

  Mismatch CompareWake(ClauseReader& in) const {
    const auto when = ParseScenarioSpan(in.Word(0));
    if (!when) {
      in.Complain("expected a time");
      return std::nullopt;
    }
    return Differs("wake", TimeText(core::Time{*when}),
                   wake_ ? TimeText(*wake_) : std::string("none"));
  }

  Mismatch CompareReason(ClauseReader& in) const {
    const std::optional<core::Explanation> explained =
        shell_.scheduler().Explain(in.Task(), shell_.Now());
    if (!explained) return "the core does not hold the task";
    core::Reason reason = explained->reason;
    if (in.Has("gpu")) {
      const core::GpuIndex gpu = in.Gpu(world_.size());
      if (explained->gpus.size() <= Number(gpu)) return "no verdict about that GPU";
      reason = explained->gpus[Number(gpu)].verdict.reason;
    }
    const std::string got(core::ReasonName(reason.code));
    if (got != in.Word(1)) {
      return fmt::format("reason: expected {}, got {} ({})", in.Word(1), got, *reason.text);
    }
    if (reason.text->find(in.Text("text")) == std::string::npos) {
      return fmt::format("reason: expected a text with '{}', got '{}'", in.Text("text"),
                         *reason.text);
    }
    return std::nullopt;
  }

  Mismatch CompareState(ClauseReader& in) const {
    const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
    return Differs("state", in.Word(1),
                   task == nullptr ? "not held" : core::TaskStateName(task->state));
  }

  Mismatch CompareLatest(ClauseReader& in) const {
    const auto starts = shell_.scheduler().ExpectedStarts(shell_.Now());
    const auto at = starts.find(in.Task());
    const bool known = at != starts.end() && at->second.latest;
    const std::optional<base::Duration> wanted = ParseScenarioSpan(in.Word(1));
    return Differs("latest", wanted ? TimeText(core::Time{*wanted}) : std::string("unknown"),
                   known ? TimeText(*at->second.latest) : std::string("unknown"));
  }

  Mismatch CompareSharing(ClauseReader& in) const {
    const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
    if (task == nullptr) return "the core does not hold the task";
    const auto text = [](const core::Sharing& sharing) {
      return fmt::format("{} limit_mib={} threads={} note={}", SharingMethodName(sharing.method),
                         sharing.memory_limit_mib, sharing.thread_percent, sharing.note);
    };
    return Differs("sharing", text(SharingOf(in)), text(task->attempt->sharing));
  }

  Mismatch ComparePromised(ClauseReader& in) const {
    const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
    if (task == nullptr) return "the core does not hold the task";
    const core::HostShare& share = task->attempt->host;
    if (Mismatch wrong =
            Differs<std::int64_t>("cpus", in.Int("cpus", 0, core::kMaxCpus, 0), share.cpus))
      return wrong;
    if (Mismatch wrong = Differs("mib", in.Int("mib", 0, kMaxMib, 0), share.memory_mib))
      return wrong;
    return Differs("cores", in.Text("cores"), share.cores);
  }

  Mismatch CompareUnpromised(ClauseReader& in) const {
    const core::HostView view = shell_.scheduler().Host().View();
    if (Mismatch wrong = Differs<std::int64_t>(
            "cpus", in.Int("cpus", 0, core::kMaxCpus, view.free_cpus), view.free_cpus))
      return wrong;
    return Differs("mib", in.Int("mib", 0, kMaxMib, view.free_memory_mib), view.free_memory_mib);
  }

  Mismatch CompareIdle(std::string_view verb, ClauseReader& in) const {
    const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
    if (task == nullptr) return "the core does not hold the task";
    const std::string got =
        task->attempt->idle_since ? TimeText(*task->attempt->idle_since) : "busy";
    return Differs("idle", verb == "idle" ? TimeText(Since(in)) : "busy", got);
  }

  Mismatch CompareGpu(std::string_view verb, ClauseReader& in) const {
    const core::GpuIndex gpu = in.Gpu(world_.size());
    if (in.error()) return std::nullopt;
    const core::GpuView view = shell_.scheduler().Gpus(shell_.Now())[Number(gpu)];
    if (verb == "free") return Differs("free", in.Int("mib", 0, kMaxMib, 0), view.free_mib);
    const std::string got =
        view.reserved_for ? fmt::format("t{}", Number(*view.reserved_for)) : "nobody";
    return Differs("reserved", in.Flag("nobody") ? std::string("nobody") : in.Text("for"), got);
  }

  Result<Unit> NothingLeft() {
    for (const News& news : news_) {
      if (Unexpected(news)) return Bad(ErrorCode::kConflict, "unexpected " + Describe(news));
    }
    news_.clear();
    return Unit{};
  }

  std::string Pending() const {
    std::string text;
    for (const News& news : news_) {
      if (!news.expected) text += (text.empty() ? "; there is: " : ", ") + Describe(news);
    }
    return text;
  }

  const Scenario& scenario_;
  ScenarioShell& shell_;
  ScenarioWorld world_;
  const ScenarioLine* line_ = nullptr;
  core::Time next_sample_ = core::Time{} + scenario_.sample_period;
  std::vector<News> news_;
  std::vector<TaskId> asked_;  // estimates to be answered
  std::set<TaskId> later_;     // whose estimate a line brings
  std::map<TaskId, std::optional<std::int64_t>> need_mib_;
  std::set<TaskId> predicted_;  // by an estimator; the others' need is stated
  std::map<TaskId, core::KindId> kind_;
  std::map<TaskId, core::Profile> profile_;
  std::map<std::string, std::uint32_t> uids_;  // of users that were named
  std::map<TaskId, int> attempt_;
  std::map<TaskId, std::vector<core::Placement>> placed_;
  std::map<TaskId, std::pair<core::TaskState, core::QueueKind>> state_;
  std::optional<core::Time> wake_;
  std::vector<core::BookedPeriod> booked_;
};

}  // namespace

Result<Unit> RunScenario(const Scenario& scenario, ScenarioShell& shell) {
  return Player(scenario, shell).Play();
}

}  // namespace carma::sim
