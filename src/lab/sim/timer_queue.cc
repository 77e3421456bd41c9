#include "lab/sim/timer_queue.h"

#include <algorithm>

namespace carma::sim {
namespace {

constexpr std::size_t kChildren = 4;
constexpr int kRankShift = 63;

}  // namespace

void TimerQueue::Place(std::size_t at, const Entry& entry) {
  heap_[at] = entry;
  places_[entry.timer] = static_cast<std::uint32_t>(at);
}

void TimerQueue::Up(std::size_t at, const Entry& entry) {
  while (at > 0) {
    const std::size_t parent = (at - 1) / kChildren;
    if (!(entry < heap_[parent])) break;
    Place(at, heap_[parent]);
    at = parent;
  }
  Place(at, entry);
}

void TimerQueue::Down(std::size_t at, const Entry& entry) {
  for (;;) {
    const std::size_t first = at * kChildren + 1;
    if (first >= heap_.size()) break;
    const std::size_t last = std::min(first + kChildren, heap_.size());
    std::size_t least = first;
    for (std::size_t child = first + 1; child < last; ++child) {
      if (heap_[child] < heap_[least]) least = child;
    }
    if (!(heap_[least] < entry)) break;
    Place(at, heap_[least]);
    at = least;
  }
  Place(at, entry);
}

void TimerQueue::Set(TimerId timer, base::Time when, Rank rank) {
  if (timer >= places_.size()) places_.resize(timer + 1, kNowhere);
  const Entry entry{.when = when,
                    .order = (static_cast<std::uint64_t>(rank) << kRankShift) | ++sequence_,
                    .timer = timer};
  const std::uint32_t at = places_[timer];
  if (at == kNowhere) {
    heap_.emplace_back();
    Up(heap_.size() - 1, entry);
  } else if (entry < heap_[at]) {
    Up(at, entry);
  } else {
    Down(at, entry);
  }
}

void TimerQueue::Clear(TimerId timer) {
  if (!IsSet(timer)) return;
  const std::size_t at = places_[timer];
  places_[timer] = kNowhere;
  const Entry last = heap_.back();
  heap_.pop_back();
  if (last.timer == timer) return;
  if (at > 0 && last < heap_[(at - 1) / kChildren]) {
    Up(at, last);
  } else {
    Down(at, last);
  }
}

TimerQueue::Event TimerQueue::Pop() {
  const Event top = Top();
  Clear(top.timer);
  return top;
}

}  // namespace carma::sim
