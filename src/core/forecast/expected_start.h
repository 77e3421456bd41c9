// Computes the latest time at which each waiting task can start. Assumes that every task uses its
// whole time limit, no later submission overtakes these tasks, and no GPU is closed. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/values/reservation.h"

namespace carma::core {

// When a GPU becomes free, and when it is reserved.
struct ExpectedGpu {
  std::optional<Time> free_at;  // when its last task ends; empty if unknown
  std::span<const ReservedPeriod* const> booked;
};

// A waiting or new task.
struct ExpectedTask {
  std::size_t gpus = 1;
  std::vector<bool> may;          // per GPU: whether the task may use it when empty
  std::optional<Duration> takes;  // longest run time; empty if unknown
  Duration runs_into{};           // a GPU with a reservation within this time is excluded
  std::vector<ReservationId> own_reservations;
};

// A running task that may be preempted and go back to the queue ahead of other tasks. It may then
// start on other GPUs. Its end is unknown, so ExpectedGpu::free_at is empty for its current GPUs.
struct ExpectedReturn {
  std::size_t gpus = 1;
  std::vector<bool> may;    // per GPU, as for a waiting task
  std::vector<bool> holds;  // by GPU
};

// How the queue is served.
enum class Pass {
  kInOrder,     // no task starts before those ahead of it
  kFreely,      // any task that fits starts
  kAnyOrder,    // the order can change, and the head blocks all others
  kOneAtATime,  // like kAnyOrder, but GPUs stay empty until the head has all it needs
};

// The latest start of each task, in queue order. Empty if unknown.
//
// kInOrder: each task takes the usable GPUs that become free first. A task may start earlier, share
// a GPU or end before its limit, but this never delays the tasks behind it: for every n, the n-th
// GPU still becomes free no later than computed (by induction along the queue).
//
// kFreely: while a task that needs k of m GPUs waits, fewer than k are empty, so at least m - k + 1
// are busy. Its longest wait is the total work divided by m - k + 1.
//
// kAnyOrder: like kFreely, but divides by the smallest m - k + 1 of all waiting tasks.
//
// kOneAtATime: the longest wait is the total work, because only one GPU might be busy.
//
// returning: each of these tasks is assumed to take the GPUs that become free first, in addition to
// those that it still holds.
//
// asked_for (kInOrder only): how long running tasks take to leave once they are asked to make room
// for the head of the queue. Each start delays the next by this long.
std::vector<std::optional<Time>> LatestStarts(Time now, std::span<const ExpectedGpu> gpus,
                                              std::span<const ExpectedTask> line, Pass pass,
                                              std::span<const ExpectedReturn> returning = {},
                                              Duration asked_for = {});

}  // namespace carma::core
