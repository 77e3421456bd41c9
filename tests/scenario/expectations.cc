#include "tests/scenario/expectations.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/scenario/scenario_events.h"

namespace carma::sim {
namespace {

using core::TaskId;

template <class T>
Mismatch Differs(std::string_view what, const T& expected, const T& got) {
  if (expected == got) return std::nullopt;
  return fmt::format("{}: expected {}, got {}", what, expected, got);
}

Mismatch CompareQueue(const core::TaskRecord& record, ClauseReader& in) {
  const bool recovery = record.queue == core::QueueKind::kRecovery;
  if (in.Flag("recovery") && !recovery) return "expected the recovery queue";
  if (in.Flag("main") && recovery) return "expected the main queue";
  if (in.Flag("exclusive") && !record.retry_on_idle_gpu) return "expected a retry on an idle GPU";
  if (const auto free_mib = in.OptionalInt("free_mib", 0, kMaxMib)) {
    return Differs("free_mib", *free_mib, record.retry_free_mib.value_or(0));
  }
  return std::nullopt;
}

Mismatch CompareWake(ClauseReader& in, const std::optional<core::Time>& wake) {
  const auto when = ParseScenarioSpan(in.Word(0));
  if (!when) {
    in.Complain("expected a time");
    return std::nullopt;
  }
  return Differs("wake", TimeText(core::Time{*when}), wake ? TimeText(*wake) : std::string("none"));
}

}  // namespace

Mismatch Expectations::Compare(const Clause& clause, ClauseReader& in, std::vector<News>& news,
                               const std::optional<core::Time>& wake) const {
  const std::string& verb = clause.verb;
  if (verb == "nothing") {
    const bool none = std::none_of(news.begin(), news.end(), Unexpected);
    return none ? std::nullopt : Mismatch("expected nothing");
  }
  if (verb == "wake") return CompareWake(in, wake);
  if (verb == "reason") return CompareReason(in);
  if (verb == "state") return CompareState(in);
  if (verb == "latest" || verb == "likely") return CompareExpectedStart(verb, in);
  if (verb == "sharing") return CompareSharing(in);
  if (verb == "promised") return ComparePromised(in);
  if (verb == "unpromised") return CompareUnpromised(in);
  if (verb == "idle" || verb == "busy") return CompareIdle(verb, in);
  if (verb == "free" || verb == "reserved") return CompareGpu(verb, in);
  const TaskId id = in.Task();
  if (in.error()) return std::nullopt;
  // A clause matches the oldest news of its kind that no earlier clause has matched.
  for (News& each : news) {
    if (each.expected || each.task != id || KindName(each.kind) != verb) continue;
    if (Mismatch wrong = CompareNews(each, in)) {
      return fmt::format("{} t{}: {}", verb, Number(id), *wrong);
    }
    each.expected = true;
    return std::nullopt;
  }
  return fmt::format("expected {} t{}", verb, Number(id));
}

Mismatch Expectations::CompareNews(const News& news, ClauseReader& in) const {
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

Mismatch Expectations::CompareAsk(TaskId id, ClauseReader& in) const {
  const core::TaskRecord* task = shell_.scheduler().Find(id);
  if (task == nullptr) return "the core has no such task";
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

Mismatch Expectations::CompareStart(const core::StartTask& start, ClauseReader& in) const {
  const std::vector<core::GpuIndex> gpus = in.GpuList(gpus_);
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

Mismatch Expectations::CompareReason(ClauseReader& in) const {
  const std::optional<core::Explanation> explained =
      shell_.scheduler().Explain(in.Task(), shell_.Now());
  if (!explained) return "the core has no such task";
  core::Reason reason = explained->reason;
  if (in.Has("gpu")) {
    const core::GpuIndex gpu = in.Gpu(gpus_);
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

Mismatch Expectations::CompareState(ClauseReader& in) const {
  const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
  return Differs("state", in.Word(1),
                 task == nullptr ? "not held" : core::TaskStateName(task->state));
}

Mismatch Expectations::CompareExpectedStart(std::string_view verb, ClauseReader& in) const {
  auto starts = shell_.scheduler().ExpectedStarts(shell_.Now());
  const core::ExpectedStart start = starts[in.Task()];
  const std::optional<core::Time>& found = verb == "latest" ? start.latest : start.likely;
  const std::optional<base::Duration> wanted = ParseScenarioSpan(in.Word(1));
  return Differs(verb, wanted ? TimeText(core::Time{*wanted}) : std::string("unknown"),
                 found ? TimeText(*found) : std::string("unknown"));
}

Mismatch Expectations::CompareSharing(ClauseReader& in) const {
  const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
  if (task == nullptr) return "the core has no such task";
  const auto text = [](const core::Sharing& sharing) {
    return fmt::format("{} limit_mib={} threads={} note={}", SharingMethodName(sharing.method),
                       sharing.memory_limit_mib, sharing.thread_percent, sharing.note);
  };
  return Differs("sharing", text(SharingOf(in)), text(task->attempt->sharing));
}

Mismatch Expectations::ComparePromised(ClauseReader& in) const {
  const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
  if (task == nullptr) return "the core has no such task";
  const core::HostShare& share = task->attempt->host;
  if (Mismatch wrong =
          Differs<std::int64_t>("cpus", in.Int("cpus", 0, core::kMaxCpus, 0), share.cpus))
    return wrong;
  if (Mismatch wrong = Differs("mib", in.Int("mib", 0, kMaxMib, 0), share.memory_mib)) return wrong;
  return Differs("cores", in.Text("cores"), share.cores);
}

Mismatch Expectations::CompareUnpromised(ClauseReader& in) const {
  const core::HostView view = shell_.scheduler().Host().View();
  if (Mismatch wrong = Differs<std::int64_t>(
          "cpus", in.Int("cpus", 0, core::kMaxCpus, view.free_cpus), view.free_cpus))
    return wrong;
  return Differs("mib", in.Int("mib", 0, kMaxMib, view.free_memory_mib), view.free_memory_mib);
}

Mismatch Expectations::CompareIdle(std::string_view verb, ClauseReader& in) const {
  const core::TaskRecord* task = shell_.scheduler().Find(in.Task());
  if (task == nullptr) return "the core has no such task";
  const std::string got = task->attempt->idle_since ? TimeText(*task->attempt->idle_since) : "busy";
  return Differs("idle", verb == "idle" ? TimeText(Since(in)) : "busy", got);
}

Mismatch Expectations::CompareGpu(std::string_view verb, ClauseReader& in) const {
  const core::GpuIndex gpu = in.Gpu(gpus_);
  if (in.error()) return std::nullopt;
  const core::GpuView view = shell_.scheduler().Gpus(shell_.Now())[Number(gpu)];
  if (verb == "free") return Differs("free", in.Int("mib", 0, kMaxMib, 0), view.free_mib);
  const std::string got =
      view.reserved_for ? fmt::format("t{}", Number(*view.reserved_for)) : "nobody";
  return Differs("reserved", in.Flag("nobody") ? std::string("nobody") : in.Text("for"), got);
}

}  // namespace carma::sim
