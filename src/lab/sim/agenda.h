// The clock and the future events of a run. Private to sim.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "lab/sim/timer_queue.h"

namespace carma::sim {

inline constexpr base::Time kDaemonsStart{};

// The purpose of a timer. Each kind exists once per run, per server or per task.
enum class Due : std::uint8_t {
  kArrivals,      // the next tasks are submitted
  kAbove,         // the queue above the servers is examined again
  kReservations,  // the servers receive the next reservations
  kWake,          // per server: requested by its core
  kTick,          // per server: its monitor may take samples
  kSamples,       // per server: samples arrive at its core
  kTask,          // per task: the next step of its life
};

class Agenda {
 public:
  struct Event {
    Due due = Due::kArrivals;
    std::uint32_t index = 0;  // number of the server or the task
  };

  explicit Agenda(std::size_t servers) : servers_(static_cast<TimerId>(servers)) {}

  base::Time now() const { return now_; }
  bool empty() const { return timers_.empty(); }
  // Moves the timer if it is already set.
  void Set(base::Time when, Due due, std::uint32_t index = 0) {
    const bool observes = due == Due::kTick || due == Due::kSamples;
    timers_.Set(IdOf(due, index), when,
                observes ? TimerQueue::Rank::kObserve : TimerQueue::Rank::kHappen);
  }
  void Clear(Due due, std::uint32_t index = 0) { timers_.Clear(IdOf(due, index)); }
  bool IsSet(Due due, std::uint32_t index = 0) const { return timers_.IsSet(IdOf(due, index)); }
  // Advances the clock to the next event and returns it.
  Event Next() {
    const TimerQueue::Event event = timers_.Pop();
    now_ = event.when;
    const TimerId first_task = IdOf(Due::kTask, 0);
    if (event.timer >= first_task) return {Due::kTask, event.timer - first_task};
    if (event.timer < kOfRun) return {static_cast<Due>(event.timer), 0};
    const TimerId of_server = event.timer - kOfRun;
    return {static_cast<Due>(kOfRun + of_server % kOfServer), of_server / kOfServer};
  }

 private:
  static constexpr TimerId kOfRun = 3;
  static constexpr TimerId kOfServer = 3;
  // Task timers come last because the number of tasks is not known in advance.
  TimerId IdOf(Due due, std::uint32_t index) const {
    const auto kind = static_cast<TimerId>(due);
    if (due == Due::kTask) return kOfRun + kOfServer * servers_ + index;
    return due < Due::kWake ? kind : kind + kOfServer * index;
  }

  TimerId servers_ = 0;
  base::Time now_{};
  TimerQueue timers_;
};

}  // namespace carma::sim
