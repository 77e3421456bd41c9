// Options for how a simulated cluster's queue distributes tasks to servers.
#pragma once

#include <string_view>
#include <utility>

#include "base/time.h"
#include "base/words.h"

namespace carma::sim {

enum class Placing {
  kQueue,  // first in, first out, to the server with the most idle GPUs
  kSlurm,  // to the server that Slurm picks by its counts; the server places the task
  kAsked,  // to the server that reports the best fit
};
inline constexpr std::pair<Placing, std::string_view> kPlacingWords[] = {
    {Placing::kQueue, "queue"},
    {Placing::kSlurm, "slurm"},
    {Placing::kAsked, "asked"},
};

// The resource that Slurm counts (its "gres"). With kCarma, CARMA runs on the nodes. With kGpu and
// kShard, a task starts immediately on the GPUs that Slurm chose, and fails if it runs out of
// memory.
enum class Gres {
  kCarma,  // a server's total GPU memory, in GiB; CARMA chooses the GPU
  kGpu,    // whole GPUs, one task each
  kShard,  // each GPU's memory, in GiB; a task gets the first GPU with enough memory left
};
inline constexpr std::pair<Gres, std::string_view> kGresWords[] = {
    {Gres::kCarma, "carma"},
    {Gres::kGpu, "gpu"},
    {Gres::kShard, "shard"},
};

// Options for the queue that feeds the servers. The defaults are those of Slurm and of CARMA's
// Slurm plug-in. PolicyConfig::order applies to this queue too.
struct Above {
  Placing placing = Placing::kQueue;

  // ---- kSlurm ----
  Gres gres = Gres::kCarma;
  bool spread = false;  // chooses the least loaded server (LLN=YES), not the first one with room
  // Backfill: a task may start before the head of the queue if time limits show that this will not
  // delay the head.
  bool backfill = false;
  base::Duration backfill_every{30'000};
  // A task's time limit as a multiple of its solo run time. Tasks are not stopped at this limit.
  double time_limit = 2;
  // Delay before a requeued task can start again, because its credential has to expire first.
  base::Duration requeue_delay{121'000};

  // ---- kSlurm with Gres::kCarma, kAsked ----
  // If a server has not started a task within `wait`, the task moves to another server. With
  // kSlurm, a task moves at most wait_requeues times.
  base::Duration wait{600'000};
  int wait_requeues = 3;

  // ---- kAsked ----
  base::Duration report_every{10'000};  // maximum age of the servers' reports

  bool WithCarma() const { return placing == Placing::kAsked || gres == Gres::kCarma; }
  friend bool operator==(const Above&, const Above&) = default;
};

}  // namespace carma::sim

template <>
inline constexpr carma::base::Words<carma::sim::Placing>
    carma::base::kWordsOf<carma::sim::Placing> = carma::sim::kPlacingWords;
template <>
inline constexpr carma::base::Words<carma::sim::Gres> carma::base::kWordsOf<carma::sim::Gres> =
    carma::sim::kGresWords;
