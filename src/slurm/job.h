// A job as shown by Slurm's squeue. scontrol shows more, but its owner chooses some of that text
// (names, paths) and could imitate the values read here. Only administrators can write the comment
// read here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::slurm {

// The reason of jobs that `scontrol requeuehold` has put back.
inline constexpr std::string_view kHeldByRequeue = "job requeued in held state";
// The reason of jobs whose script has ended with an exit code that is not 0.
inline constexpr std::string_view kScriptFailed = "NonZeroExitCode";

struct Job {
  std::uint64_t id = 0;  // the job's own id, even in an array
  std::string name;      // for scontrol: "4711", "4711_3"
  std::string state;     // "RUNNING", "COMPLETING" …
  std::string reason;    // why it waits
  bool batch = false;    // Slurm has the script, so it can restart the job
  bool requeue = false;  // the owner allows a requeue
  int restarts = 0;
  bool on_hold = false;        // its priority is 0; while it runs, this concerns its next start
  std::int64_t carma_gib = 0;  // requested GPU memory per node; 0: none
  std::string gres;            // everything it requests per node: "nvme:50,carma:12"
  int nodes = 1;
  std::string node_list;    // where it runs: "n0", "n[0-1]"; empty: nowhere yet
  std::string asked_nodes;  // from --nodelist, perhaps truncated; empty: any
  std::string partition;
  std::string reservation;      // empty: none
  bool other_gres = false;      // requests more of a node than GPU memory, for example Slurm's GPUs
  std::int64_t cpus = 0;        // allocated
  std::int64_t memory_mib = 0;  // allocated
  std::string admin_comment;    // empty: none; may have several lines
  // From ExcludedNodes() (elsewhere.h), only for jobs that are sent elsewhere.
  std::optional<std::string> excluded;
  friend bool operator==(const Job&, const Job&) = default;

  bool Waits() const { return state == "PENDING"; }
  // Whether this is a component of a heterogeneous job ("4711+1"), which Slurm requeues only as a
  // whole.
  bool IsComponent() const { return name.find('+') != std::string::npos; }
  bool Held() const;
  // Whether the job still has processes, or their end has not been reported yet.
  bool Runs() const;
  // Returns `gres` with its claim replaced by `gib`.
  std::string GresWith(std::int64_t gib) const;
  // Whether the job may be rerun: it runs, or its script has just failed. A job that was cancelled
  // or reached its time limit is completing for another reason.
  bool MayGoBack() const;
};

// The columns for -O of `squeue --noheader --array --states=all`.
extern const char* const kJobColumns;
inline constexpr std::size_t kMostOfSqueue = 1 << 20;
inline constexpr std::size_t kMostOfComment = 300;  // longer ones are cut

// Finds the job with this id; empty if there is none. Errors: kInvalid if its line is malformed or
// does not describe a job.
Result<std::optional<Job>> FindJob(std::string_view text, std::uint64_t id);

}  // namespace carma::slurm
