#include "tests/scenario/news.h"

#include <fmt/format.h>

namespace carma::sim {

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

bool Unexpected(const News& news) {
  return !news.expected && (news.kind == News::Kind::kStart || news.kind == News::Kind::kStop ||
                            news.kind == News::Kind::kWarn || news.kind == News::Kind::kAsk ||
                            news.kind == News::Kind::kReject);
}

}  // namespace carma::sim
