// The tasks of a run between their submission and their end. Private to sim.
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

#include "base/time.h"
#include "core/scheduler/scheduler.h"
#include "core/values/ids.h"
#include "lab/sim/alike.h"
#include "lab/sim/layout.h"
#include "lab/sim/simulate.h"
#include "lab/sim/work.h"
#include "report/run.h"

namespace carma::sim {

using JobIndex = std::uint32_t;

enum class Phase : std::uint8_t {
  kEstimating,  // its estimate comes later
  kWaiting,     // in the cluster's queue or in a server's
  kLoading,     // its process lives but has not allocated
  kComputing,
  kCrashing,  // ran out of memory, its process is about to end
  kStopping,  // the core has requested its end
  kAway,      // sent back by its server, not placed again yet
};

// The task's state in the cluster's queue; used with Placing::kSlurm and kAsked.
struct PlaceAbove {
  std::shared_ptr<Alike> alike;
  bool placed = false;
  bool leaving = false;                    // its server must give it back
  std::vector<std::uint32_t> nodes;        // whole servers of a task of several
  std::vector<std::uint32_t> pinned;       // GPUs of its server that Slurm has chosen
  std::optional<std::uint32_t> shunned;    // the last server that it was taken from
  base::Time lined_up{};                   // the last time
  int waits = 0;                           // times it was taken away
  int retries = 0;                         // after it ran out of memory
  std::optional<std::int64_t> raised_mib;  // what it asks for in the next attempt
};

// The current attempt, or the last one.
struct JobAttempt {
  int number = 0;
  base::Time launched{};
  base::Time allocated{};
  std::vector<std::uint32_t> gpus;  // SimGpus, all on one server unless it has several servers
  std::int64_t promised_mib = 0;    // of its memory on each; 0: nothing
  std::int64_t limit_mib = 0;       // of its memory on each; 0: none
  bool alone = false;               // exclusive, so no MPS client
  bool saved = false;               // it was asked to checkpoint, and ends by itself
  bool holds = false;               // memory there, from its first allocation on
  base::Time ends{};
  std::optional<base::Time> memory_steps;
  std::optional<base::Time> checkpoints;
  std::optional<base::Time> slot_ends;
};

struct Job {
  core::TaskId id{};
  const Arrival* arrival = nullptr;
  std::uint32_t uid = 0;  // 0: its user is unknown
  base::Time submitted{};
  Phase phase = Phase::kWaiting;
  std::uint32_t node = 0;   // its server, or the first of them
  std::size_t parts = 0;    // of PlaceAbove::nodes that have started or ended it
  bool recovering = false;  // waits in the server's recovery queue
  bool untaught = false;    // its last attempt has ended but nothing was learned from it yet
  PlaceAbove above;
  Work work;
  JobAttempt attempt;

  // All attempts.
  int slots = 0;  // times it was sent back
  std::int64_t attempts = 0;
  double executed_s = 0;
  std::optional<core::ExpectedStart> told;  // expected start; only if requested
  std::vector<report::Attempt> history;     // only if requested

  const trace::Workload& workload() const { return *arrival->workload; }
  std::span<const std::uint32_t> Servers() const {
    return above.nodes.empty() ? std::span(&node, 1) : std::span(above.nodes);
  }
  bool Computes() const { return phase == Phase::kComputing; }
};

// Whether the job needs more GPUs than one server has.
bool IsGang(const Layout& layout, const Job& job);
// Number of the job's GPUs on that server.
int GpusOn(const Layout& layout, const Job& job, std::uint32_t server);
// Cores that the job's data loading needs, on all its servers.
double CoresOf(const RunOptions& options, const Job& job);
// The request to this server; for a task on several servers, its part there. Without a server, the
// request to the whole cluster.
core::TaskRequest RequestOf(const RunOptions& options, const Layout& layout, const Job& job,
                            std::optional<std::uint32_t> server = std::nullopt);

// Unfinished tasks by index; an index is reused after its task's end.
class Jobs {
 public:
  // The arrivals must outlive it.
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
  std::map<std::string, std::uint32_t> uids_;  // of the users that the load names
  std::vector<Job> jobs_;
  std::vector<JobIndex> free_;
  std::unordered_map<std::uint64_t, JobIndex> index_of_;  // by task id; for look-up only
};

}  // namespace carma::sim
