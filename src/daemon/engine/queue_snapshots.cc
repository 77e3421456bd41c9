#include "daemon/engine/queue_snapshots.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace carma::daemon {
namespace {

constexpr std::size_t kMostKept = 4;
constexpr base::Duration kKept{120'000};
constexpr base::Duration kFresh{1'000};

}  // namespace

ToldLine::ToldLine(std::vector<core::TaskId> tasks, base::Time told)
    : tasks_(std::move(tasks)), told_(told) {
  if (std::ranges::is_sorted(tasks_)) return;  // already in submission order
  by_task_.resize(tasks_.size());
  std::iota(by_task_.begin(), by_task_.end(), 0U);
  std::ranges::sort(by_task_, {}, [this](std::uint32_t place) { return tasks_[place]; });
}

std::optional<std::size_t> ToldLine::PlaceOf(core::TaskId task) const {
  if (by_task_.empty()) {
    const auto found = std::ranges::lower_bound(tasks_, task);
    if (found == tasks_.end() || *found != task) return std::nullopt;
    return found - tasks_.begin();
  }
  const auto at = std::ranges::lower_bound(by_task_, task, {},
                                           [this](std::uint32_t place) { return tasks_[place]; });
  if (at == by_task_.end() || tasks_[*at] != task) return std::nullopt;
  return *at;
}

void QueueSnapshots::Keep(std::shared_ptr<const ToldLine> line, core::TaskId ended_with) {
  std::erase_if(kept_, [&](const Kept& each) { return each.line == line; });
  if (kept_.size() == kMostKept) kept_.erase(kept_.begin());
  kept_.push_back({std::move(line), ended_with});
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
