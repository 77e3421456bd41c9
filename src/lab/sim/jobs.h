// Tracks the tasks of a run from submission to end. Private to sim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "core/scheduler/scheduler.h"
#include "core/values/ids.h"
#include "lab/sim/layout.h"
#include "lab/sim/simulate.h"
#include "lab/sim/work.h"
#include "report/run.h"

namespace carma::sim {

using JobIndex = std::uint32_t;

enum class Phase : std::uint8_t {
  kEstimating,  // the estimate is not ready yet
  kWaiting,     // in the cluster's or a server's queue
  kLoading,     // the process is running but has not allocated GPU memory yet
  kComputing,
  kCrashing,  // the task ran out of memory, and its process is about to exit
  kStopping,  // the core has asked to stop the process
  kAway,      // sent back by the server and not placed again yet
};

struct Alike;

// The task's state in the cluster's queue; used with Placing::kSlurm and kAsked.
struct PlaceAbove {
  std::shared_ptr<Alike> alike;
  bool placed = false;
  bool leaving = false;                    // its server must return it to the cluster's queue
  std::vector<std::uint32_t> nodes;        // all servers of a task that spans several
  std::vector<std::uint32_t> pinned;       // GPUs of its server that Slurm has chosen
  std::optional<std::uint32_t> shunned;    // the server that it was last taken from
  base::Time lined_up{};                   // time at which it last joined the queue
  int waits = 0;                           // number of times it was sent back
  int retries = 0;                         // retries after it ran out of memory
  std::optional<std::int64_t> raised_mib;  // memory that it requests for the next attempt
};

inline constexpr base::Time kUnset = base::Time::max();

// The current or most recent attempt.
struct JobAttempt {
  int number = 0;
  base::Time launched{};
  base::Time allocated{};
  std::vector<std::uint32_t> gpus;  // SimGpus, all on one server unless the task needs several
  std::int64_t promised_mib = 0;    // promised memory on each GPU; 0: none
  std::int64_t limit_mib = 0;       // its memory limit on each GPU; 0: none
  bool alone = false;               // on exclusive GPUs, so not an MPS client
  bool saved = false;               // the task was asked to checkpoint and exits on its own
  bool holds = false;               // holds GPU memory, from its first allocation on
  base::Time ends{};
  // When each timer is due; kUnset means never.
  base::Time memory_steps = kUnset;
  base::Time checkpoints = kUnset;
  base::Time slot_ends = kUnset;
};

struct Job {
  core::TaskId id{};
  const Arrival* arrival = nullptr;
  std::uint32_t uid = 0;  // 0: the user is unknown
  base::Time submitted{};
  Phase phase = Phase::kWaiting;
  std::uint32_t node = 0;   // its server, or the first of several
  std::size_t parts = 0;    // number of PlaceAbove::nodes that have started or ended the task
  bool recovering = false;  // waits in the server's recovery queue
  bool untaught = false;    // the predictions have not learned from its last attempt yet
  PlaceAbove above;
  Work work;
  JobAttempt attempt;

  // ---- sums over all attempts ----
  int slots = 0;  // number of times that a time slice ended
  std::int64_t attempts = 0;
  std::optional<core::ExpectedStart> told;  // expected start; only if requested
  std::vector<report::Attempt> history;     // only if requested

  const trace::Workload& workload() const { return *arrival->workload; }
  std::span<const std::uint32_t> Servers() const {
    return above.nodes.empty() ? std::span(&node, 1) : std::span(above.nodes);
  }
  bool Computes() const { return phase == Phase::kComputing; }
};

// True if the job needs more GPUs than any single server has.
bool IsGang(const Layout& layout, const Job& job);
// Number of GPUs that the job has on that server.
int GpusOn(const Layout& layout, const Job& job, std::uint32_t server);
// CPU cores that the job's data loading needs across all its servers.
double CoresOf(const RunOptions& options, const Job& job);
// Builds the task's request to `server`; for a task on several servers, only that server's part.
// Without `server`, the request covers the whole cluster.
core::TaskRequest RequestOf(const RunOptions& options, const Layout& layout, const Job& job,
                            std::optional<std::uint32_t> server = std::nullopt);

// Unfinished tasks by index. An index is reused after its task has ended.
class Jobs {
 public:
  // The arrivals must outlive this object.
  Jobs(std::span<const Arrival> arrivals, double noise, std::uint64_t seed);

  // number: position of the arrival, from 0; the task id is one higher.
  JobIndex Add(std::size_t number, base::Time now);
  void Remove(JobIndex index);
  Job& operator[](JobIndex index) { return jobs_[index]; }
  const Job& operator[](JobIndex index) const { return jobs_[index]; }
  JobIndex IndexOf(core::TaskId id) const { return index_of_.at(core::Number(id)); }
  Job& Of(core::TaskId id) { return jobs_[IndexOf(id)]; }
  std::size_t size() const { return index_of_.size(); }

 private:
  const std::span<const Arrival> arrivals_;
  const double noise_;
  const std::uint64_t seed_;
  std::map<std::string, std::uint32_t> uids_;  // users named in the load
  std::vector<Job> jobs_;
  std::vector<JobIndex> free_;
  std::unordered_map<std::uint64_t, JobIndex> index_of_;  // by task id; only for lookups
};

// The purpose of a random value. Values depend only on the seed, the task and the purpose, so with
// the same seed, every policy gets the same tasks.
enum class Draw : std::uint64_t { kNoise, kFailure, kEstimate, kProfile };

inline base::Rng Chance(std::uint64_t seed, Draw draw, std::uint64_t task) {
  base::Rng by_purpose(seed * 4 + static_cast<std::uint64_t>(draw));
  return base::Rng(by_purpose.Next() + task);
}

}  // namespace carma::sim
