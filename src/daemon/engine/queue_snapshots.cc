#include "daemon/engine/queue_snapshots.h"

#include <algorithm>
#include <utility>

namespace carma::daemon {
namespace {

constexpr std::size_t kMostKept = 4;
constexpr base::Duration kKept{120'000};
constexpr base::Duration kFresh{1'000};

}  // namespace

ToldLine::ToldLine(std::vector<core::TaskId> tasks, base::Time told)
    : tasks_(std::move(tasks)), told_(told) {
  places_.reserve(tasks_.size());
  for (std::size_t i = 0; i < tasks_.size(); ++i) places_.emplace_back(tasks_[i], i);
  std::ranges::sort(places_);
}

std::optional<std::size_t> ToldLine::PlaceOf(core::TaskId task) const {
  const auto at =
      std::ranges::lower_bound(places_, task, {}, &std::pair<core::TaskId, std::size_t>::first);
  if (at == places_.end() || at->first != task) return std::nullopt;
  return at->second;
}

void QueueSnapshots::Keep(std::shared_ptr<const ToldLine> line, core::TaskId ended_with) {
  std::erase_if(kept_, [&](const Kept& each) { return each.line == line; });
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  kept_.push_back({std::move(line), ended_with});
}

void QueueSnapshots::Remember(const std::shared_ptr<const ToldLine>& line) {
  last_ = line;
}

std::shared_ptr<const ToldLine> QueueSnapshots::Fresh(base::Time now) const {
  std::shared_ptr<const ToldLine> line = last_.lock();
  return line != nullptr && now - line->told() < kFresh ? line : nullptr;
}

std::shared_ptr<const ToldLine> QueueSnapshots::Behind(core::TaskId task, base::Time now) {
  std::erase_if(kept_, [&](const Kept& each) { return now - each.line->told() >= kKept; });
  const auto of_page = std::ranges::find(kept_, task, &Kept::ended_with);
  if (of_page != kept_.end()) return of_page->line;
  for (auto at = kept_.rbegin(); at != kept_.rend(); ++at) {
    if (at->line->PlaceOf(task)) return at->line;
  }
  return nullptr;
}

}  // namespace carma::daemon
