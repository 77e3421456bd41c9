#include "daemon/engine/progress_board.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "task/shim/progress_file.h"

namespace carma::daemon {

std::vector<ProgressBoard::Seen> ProgressBoard::Read(const std::vector<Place>& places,
                                                     std::int64_t now_ms) {
  std::vector<Seen> seen;
  for (const Place& place : places) {
    std::optional<task::ProgressReport> report = task::ReadProgressFile(place.dir);
    if (!report) continue;
    report->stalled = place.holds_gpus && task::IsStalled(*report, now_ms);
    seen.push_back({place, *std::move(report)});
  }
  return seen;
}

std::int64_t ProgressClocks::ToServer(std::int64_t ms) const {
  return server_ms + std::llround(static_cast<double>(ms - system_ms) * scale);
}

std::vector<core::TaskId> ProgressBoard::Take(std::vector<Seen> seen,
                                              const ProgressClocks& clocks) {
  std::vector<core::TaskId> stalled;
  std::map<core::TaskId, Seen> before = std::exchange(seen_, {});
  for (Seen& each : seen) {
    const core::TaskId id = each.place.id;
    const auto old = before.find(id);
    const bool known = old != before.end() && old->second.place.attempt == each.place.attempt;
    if (each.report.stalled && !(known && old->second.report.stalled)) stalled.push_back(id);
    each.moved = !known || old->second.report.done != each.report.done;
    each.report.changed_ms = clocks.ToServer(each.report.changed_ms);
    if (each.report.ends_ms) *each.report.ends_ms = clocks.ToServer(*each.report.ends_ms);
    seen_.emplace(id, std::move(each));
  }
  return stalled;
}

core::ProgressSeen ProgressBoard::Left(std::int64_t now_ms) const {
  core::ProgressSeen seen;
  for (const auto& [id, each] : seen_) {
    if (!each.moved || !each.report.ends_ms) continue;
    const std::int64_t left_ms = std::max<std::int64_t>(0, *each.report.ends_ms - now_ms);
    seen.left.emplace_back(id, core::Duration(left_ms));
  }
  return seen;
}

const task::ProgressReport* ProgressBoard::Find(core::TaskId id, int attempt) const {
  const auto found = seen_.find(id);
  const bool fits = found != seen_.end() && found->second.place.attempt == attempt;
  return fits ? &found->second.report : nullptr;
}

}  // namespace carma::daemon
