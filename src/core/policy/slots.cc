#include "core/policy/slots.h"

#include <algorithm>

#include "base/signal_name.h"
#include "core/values/task.h"

namespace carma::core {
namespace {

// A time slice shorter than this would be useless.
constexpr Duration kShortestTurn{1'000};
// After this many doublings, one second has become more than a year.
constexpr int kMostDoublings = 25;

bool StaysWithoutCheckpoint(const SlotRules& rules, const TaskRecord& task) {
  if (KnowsToSave(task) || rules.without_checkpoint == WithoutCheckpoint::kEnd) return false;
  return rules.without_checkpoint == WithoutCheckpoint::kNever || task.cut_off > 0;
}

}  // namespace

Result<Unit> Validate(const SlotRules& rules) {
  if (rules.length && *rules.length < std::max(rules.notice, kShortestTurn)) {
    return Invalid("slots.length: expected at least {} s (slots.notice), not {} s",
                   base::Seconds(std::max(rules.notice, kShortestTurn)),
                   base::Seconds(*rules.length));
  }
  if (!base::IsSignalName(rules.checkpoint_signal)) {
    return Invalid("slots.checkpoint_signal: unknown signal '{}', expected a name like USR1",
                   rules.checkpoint_signal);
  }
  for (const int code : rules.exit_codes) {
    if (code >= 0 && code <= 255) continue;
    return Invalid("slots.exit_codes: {} is not an exit code, expected 0 to 255", code);
  }
  return Unit{};
}

std::string CheckpointSignal(const SlotRules& rules, const TaskRequest& request) {
  return request.checkpoint_signal.value_or(rules.checkpoint_signal);
}

const QosClass* ClassOf(std::span<const QosClass> classes, const TaskRequest& request) {
  const auto at = std::ranges::find(classes, QosOf(request), &QosClass::name);
  return at == classes.end() ? nullptr : &*at;
}

bool KnowsToSave(const TaskRecord& task) {
  return task.request->checkpoint_signal || task.checkpoints > 0;
}

bool TakesTurns(const SlotRules& rules, const TaskRecord& task) {
  return rules.length && !task.request->no_slots && task.request->requeue &&
         !StaysWithoutCheckpoint(rules, task);
}

Duration TurnOf(const SlotRules& rules, const TaskRecord& task) {
  const int doublings = KnowsToSave(task) ? 0 : std::clamp(task.cut_off - 1, 0, kMostDoublings);
  return *rules.length * (std::int64_t{1} << doublings);
}

std::optional<Time> TurnEnds(const SlotRules& rules, const TaskRecord& task) {
  if (!task.attempt->started || !TakesTurns(rules, task)) return std::nullopt;
  return *task.attempt->started + TurnOf(rules, task);
}

std::optional<Time> TurnOver(const SlotRules& rules, const TaskRecord& task) {
  const std::optional<Time> ends = TurnEnds(rules, task);
  if (!ends) return std::nullopt;
  return *ends - rules.notice;
}

bool SaysItSaved(const SlotRules& rules, const TaskRequest& request, const ExitInfo& exit) {
  if (exit.kind == ExitKind::kSuccess || exit.kind == ExitKind::kFailed) {
    if (exit.signal == 0)
      return std::ranges::find(rules.exit_codes, exit.code) != rules.exit_codes.end();
    return exit.signal == base::SignalNumber(CheckpointSignal(rules, request));
  }
  return false;
}

}  // namespace carma::core
