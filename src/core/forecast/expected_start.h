// By when waiting tasks start at the latest, as far as time limits allow to say so: if everybody
// takes all the time that he has, nobody who comes later goes before them, and no GPU is closed.
// Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/values/reservation.h"

namespace carma::core {

// A GPU as it will come free.
struct ExpectedGpu {
  std::optional<Time> free_at;  // of everything that is on it; empty: nobody knows
  std::span<const ReservedPeriod* const> booked;
};

// A task that waits, or a newcomer.
struct ExpectedTask {
  std::size_t gpus = 1;
  std::vector<bool> may;          // by GPU: it would take that one if nobody were on it
  std::optional<Duration> takes;  // at most; empty: nobody knows
  Duration runs_into{};           // reservations that begin so soon keep it away
  std::vector<ReservationId> own_reservations;
};

// A running task of which nobody knows when it ends, because it may be made to leave and come back
// to the line before others. While it runs its GPUs do not come free (ExpectedGpu::free_at); and it
// may come back to others.
struct ExpectedReturn {
  std::size_t gpus = 1;
  std::vector<bool> may;    // by GPU, as of a task that waits
  std::vector<bool> holds;  // by GPU
};

// How the line is gone through.
enum class Pass {
  kInOrder,     // nobody starts before those that stand before him
  kFreely,      // whoever fits starts, wherever he stands
  kAnyOrder,    // the line may come to stand in another order, and its first stops all others
  kOneAtATime,  // the same, and GPUs stand empty until the first has all that he wants
};

// Of each task of the line, in its order; empty: it cannot be said.
//
// In order: each GPU that a task may have is taken by the earlier tasks that may have it, too, the
// one that comes free first by each. If starts come earlier than by this, or tasks share, or end
// before their time, no later task starts later (the sorted times at which GPUs come free are at
// most those told here, by induction along the line).
// Freely: while a task that wants k of m GPUs waits, fewer than k of them are empty, so that at
// least m - k + 1 have something to do; all that there is to do, of everybody, divided by them, is
// the longest that it can wait. In any order: whoever waits at the moment says how many are busy,
// of all tasks the one that says least; one at a time: one is.
//
// Whoever may come back is taken to hold the GPUs that come free first, of each set of GPUs without
// those that he has now.
//
// asked_for (in order): GPUs come free because those that hold them are asked to leave, each time
// for whoever is first by then: he starts so much later than the one before him, at the earliest.
std::vector<std::optional<Time>> LatestStarts(Time now, std::span<const ExpectedGpu> gpus,
                                              std::span<const ExpectedTask> line, Pass pass,
                                              std::span<const ExpectedReturn> returning = {},
                                              Duration asked_for = {});

}  // namespace carma::core
