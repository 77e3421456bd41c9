// Future events, at most one per timer, ordered by (time, rank, order of setting).
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "base/time.h"

namespace carma::sim {

using TimerId = std::uint32_t;

// A heap that stores the position of each timer, so setting a timer again replaces its event.
// Memory therefore depends on the number of timers, not of events.
class TimerQueue {
 public:
  // Events of one moment are ordered by rank: an observation comes before that moment's changes.
  enum class Rank : std::uint8_t { kObserve, kHappen };

  struct Event {
    base::Time when{};
    TimerId timer = 0;
  };

  // The caller numbers timers densely from 0. Setting a timer that is already set moves it.
  void Set(TimerId timer, base::Time when, Rank rank = Rank::kHappen);
  void Clear(TimerId timer);
  bool IsSet(TimerId timer) const { return timer < places_.size() && places_[timer] != kNowhere; }
  bool empty() const { return heap_.empty(); }
  // The next event, which stays until Pop.
  Event Top() const { return {heap_.front().when, heap_.front().timer}; }
  Event Pop();
  std::size_t size() const { return heap_.size(); }

 private:
  struct Entry {
    base::Time when{};
    std::uint64_t order = 0;  // rank, then sequence
    TimerId timer = 0;
    bool operator<(const Entry& other) const {
      return std::tie(when, order) < std::tie(other.when, other.order);
    }
  };
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  void Up(std::size_t at, const Entry& entry);
  void Down(std::size_t at, const Entry& entry);
  void Place(std::size_t at, const Entry& entry);

  std::vector<Entry> heap_;            // each entry has four children
  std::vector<std::uint32_t> places_;  // position of each timer in the heap
  std::uint64_t sequence_ = 0;
};

}  // namespace carma::sim
