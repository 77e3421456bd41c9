// The clock and the future events of a run. Private to sim.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "base/time.h"

namespace carma::sim {

inline constexpr base::Time kDaemonsStart{};

// The purpose of a timer. Each kind exists once per run, per server or per task.
enum class Due : std::uint8_t {
  kArrivals,      // the next tasks are submitted
  kAbove,         // the queue that feeds the servers is examined again
  kReservations,  // the servers receive the next reservations
  kWake,          // per server: wake-up requested by its core
  kTick,          // per server: its monitor takes samples if needed
  kSamples,       // per server: samples arrive at its core
  kTask,          // per task: the next step of its life
};

// The future events of a run, ordered by time, at most one per timer. At equal times, kTick and
// kSamples come first, and all other ties are broken by the order in which the timers were set.
class Agenda {
 public:
  struct Event {
    Due due = Due::kArrivals;
    std::uint32_t index = 0;  // server or task number
  };

  explicit Agenda(std::size_t servers) : servers_(servers) {}

  base::Time now() const { return now_; }
  bool empty() const { return set_ == 0; }
  // Moves the timer if it is already set.
  void Set(base::Time when, Due due, std::uint32_t index = 0) {
    const std::size_t timer = TimerOf(due, index);
    const bool observes = due == Due::kTick || due == Due::kSamples;
    if (timer >= orders_.size()) orders_.resize(timer + 1, 0);
    if (orders_[timer] == 0) ++set_;
    orders_[timer] = ++sequence_ + (observes ? 0 : kAfterObservations);
    if (heap_.size() > 4 * set_ + 64) DropCleared();
    heap_.push_back({when, orders_[timer], timer});
    std::ranges::push_heap(heap_, std::greater());
  }
  void Clear(Due due, std::uint32_t index = 0) {
    if (!IsSet(due, index)) return;
    orders_[TimerOf(due, index)] = 0;
    --set_;
  }
  bool IsSet(Due due, std::uint32_t index = 0) const {
    const std::size_t timer = TimerOf(due, index);
    return timer < orders_.size() && orders_[timer] != 0;
  }
  // Advances the clock to the next event and returns it.
  Event Next() {
    Entry next;
    do {
      std::ranges::pop_heap(heap_, std::greater());
      next = heap_.back();
      heap_.pop_back();
    } while (orders_[next.timer] != next.order);
    orders_[next.timer] = 0;
    --set_;
    now_ = next.when;
    const std::size_t first_task = TimerOf(Due::kTask, 0);
    if (next.timer >= first_task)
      return {Due::kTask, static_cast<std::uint32_t>(next.timer - first_task)};
    if (next.timer < kOfRun) return {static_cast<Due>(next.timer), 0};
    const std::size_t of_server = next.timer - kOfRun;
    return {static_cast<Due>(kOfRun + of_server % kOfServer),
            static_cast<std::uint32_t>(of_server / kOfServer)};
  }

 private:
  struct Entry {
    base::Time when{};
    std::uint64_t order = 0;
    std::size_t timer = 0;
    bool operator>(const Entry& other) const {
      return std::tie(when, order) > std::tie(other.when, other.order);
    }
  };
  static constexpr std::size_t kOfRun = 3;
  static constexpr std::size_t kOfServer = 3;
  static constexpr std::uint64_t kAfterObservations = std::uint64_t{1} << 63;

  // Task timers come last because the number of tasks is not known in advance.
  std::size_t TimerOf(Due due, std::uint32_t index) const {
    const auto kind = static_cast<std::size_t>(due);
    if (due == Due::kTask) return kOfRun + kOfServer * servers_ + index;
    return due < Due::kWake ? kind : kind + kOfServer * index;
  }
  // Stale entries of moved or cleared timers stay in the heap until they reach the top or outnumber
  // the valid entries.
  void DropCleared() {
    std::erase_if(heap_, [this](const Entry& each) { return orders_[each.timer] != each.order; });
    std::ranges::make_heap(heap_, std::greater());
  }

  std::size_t servers_ = 0;
  base::Time now_{};
  std::vector<Entry> heap_;
  std::vector<std::uint64_t> orders_;  // Entry::order of each timer's event; 0: not set
  std::size_t set_ = 0;                // number of timers that are set
  std::uint64_t sequence_ = 0;
};

}  // namespace carma::sim
