// Options of a simulated cluster's queue, which distributes tasks to servers.
#pragma once

#include <string_view>
#include <utility>

#include "base/time.h"
#include "base/words.h"

namespace carma::sim {

enum class Placing {
  kQueue,  // first in, first out, to the server with the most idle GPUs
  kSlurm,  // like Slurm: by a count per server; the server places the task
  kAsked,  // by the best of the servers' own answers
};
inline constexpr std::pair<Placing, std::string_view> kPlacingWords[] = {
    {Placing::kQueue, "queue"},
    {Placing::kSlurm, "slurm"},
    {Placing::kAsked, "asked"},
};

// The resource that Slurm counts (its "gres"). Only with kCarma is there a CARMA on the nodes;
// otherwise a task starts at once on the GPUs that Slurm chose, and fails if it runs out of memory.
enum class Gres {
  kCarma,  // GiB of GPU memory of a server; CARMA chooses the GPU
  kGpu,    // GPUs, each for one task
  kShard,  // GiB of each GPU; a task gets the first GPU with enough left
};
inline constexpr std::pair<Gres, std::string_view> kGresWords[] = {
    {Gres::kCarma, "carma"},
    {Gres::kGpu, "gpu"},
    {Gres::kShard, "shard"},
};

// Options of the queue above the servers, with defaults from Slurm and the plug-in's configuration.
// PolicyConfig::order also orders this queue.
struct Above {
  Placing placing = Placing::kQueue;

  // ---- kSlurm ----
  Gres gres = Gres::kCarma;
  bool spread = false;    // to the least loaded server (LLN=YES); else to the first with room
  bool backfill = false;  // tasks that, by time limits, do not delay the head may pass it
  base::Duration backfill_every{30'000};
  // Time limits that users state, as a multiple of the run time alone. No task is stopped at its
  // limit.
  double time_limit = 2;
  // Delay before a task that was sent back may start again, because its credential must expire
  // first.
  base::Duration requeue_delay{121'000};

  // ---- kSlurm with Gres::kCarma, kAsked ----
  // A task that its server has not started within `wait` moves to another server; with kSlurm at
  // most wait_requeues times, after which it stays.
  base::Duration wait{600'000};
  int wait_requeues = 3;

  // ---- kAsked ----
  base::Duration report_every{10'000};  // maximum age of the answers

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
