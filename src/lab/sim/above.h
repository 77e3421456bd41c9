// How tasks come to the servers of a simulated cluster: the options of what stands above them.
#pragma once

#include <string_view>
#include <utility>

#include "base/time.h"
#include "base/words.h"

namespace carma::sim {

enum class Placing {
  kQueue,  // first in, first out, to the server with the most idle GPUs
  kSlurm,  // as Slurm does: by a count for each server, and there by what the server decides
  kAsked,  // as it could be: where the servers' own answers are best
};
inline constexpr std::pair<Placing, std::string_view> kPlacingWords[] = {
    {Placing::kQueue, "queue"},
    {Placing::kSlurm, "slurm"},
    {Placing::kAsked, "asked"},
};

// What Slurm counts (its "gres"). Of all but the first CARMA is not there: a task starts at once on
// the GPUs that Slurm chose, and what runs out of memory has failed.
enum class Gres {
  kCarma,  // GiB of GPU memory of a server; on which GPU is CARMA's to decide
  kGpu,    // GPUs, each for one task
  kShard,  // GiB of each GPU; a task gets the first GPU with so many left
};
inline constexpr std::pair<Gres, std::string_view> kGresWords[] = {
    {Gres::kCarma, "carma"},
    {Gres::kGpu, "gpu"},
    {Gres::kShard, "shard"},
};

// The order of those who wait is PolicyConfig::order above the servers too. Defaults are Slurm's,
// and those of the plug-in's configuration.
struct Above {
  Placing placing = Placing::kQueue;

  // ---- kSlurm ----
  Gres gres = Gres::kCarma;
  bool spread = false;    // to the server with the fewest (LLN=YES); else to the first with room
  bool backfill = false;  // who does not delay the first in line by the time limits may pass it
  base::Duration backfill_every{30'000};
  // What people say: so many times the run time alone. Nobody is ended by it.
  double time_limit = 2;
  // Before a task that is sent back may start again: its credential must have expired.
  base::Duration requeue_delay{121'000};

  // ---- kSlurm with Gres::kCarma, kAsked ----
  // A task that a server has not started for so long is sent back, to another one next; by kSlurm
  // so many times, then it waits where it is.
  base::Duration wait{600'000};
  int wait_requeues = 3;

  // ---- kAsked ----
  base::Duration report_every{10'000};  // how old the answers are at most

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
