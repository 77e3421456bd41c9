// A job as shown by Slurm's squeue. scontrol shows more, but job owners control some of its output
// (names, paths) and could use that to fake other fields. Reading the AdminComment is safe, because
// only administrators can write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace carma::slurm {

// The reason shown for jobs that `scontrol requeuehold` has requeued.
inline constexpr std::string_view kHeldByRequeue = "job requeued in held state";
// The reason shown for jobs whose script exited with a nonzero exit code.
inline constexpr std::string_view kScriptFailed = "NonZeroExitCode";

struct Job {
  std::uint64_t id = 0;  // the job's own id, even in an array
  std::string name;      // for scontrol: "4711", "4711_3"
  std::string state;     // "RUNNING", "COMPLETING" …
  std::string reason;    // why it waits
  bool batch = false;    // Slurm has the script, so it can restart the job
  bool requeue = false;  // the owner allows a requeue
  int restarts = 0;
  bool on_hold = false;        // its priority is 0; if it is running, this affects its next start
  std::int64_t carma_gib = 0;  // requested GPU memory per node; 0: none
  std::string gres;            // everything it requests per node: "nvme:50,carma:12"
  int nodes = 1;
  std::string node_list;    // where it runs: "n0", "n[0-1]"; empty: nowhere yet
  std::string asked_nodes;  // from --nodelist, perhaps truncated; empty: any
  std::string partition;
  std::string reservation;      // empty: none
  bool other_gres = false;      // also requests other resources of a node, for example Slurm's GPUs
  std::int64_t cpus = 0;        // allocated
  std::int64_t memory_mib = 0;  // allocated
  std::string admin_comment;    // empty: none; may have several lines
  // The result of ExcludedNodes() (elsewhere.h), set only for jobs that move to another node.
  std::optional<std::string> excluded;
  friend bool operator==(const Job&, const Job&) = default;

  bool Waits() const { return state == "PENDING"; }
  // Returns true for a component of a heterogeneous job ("4711+1"). Slurm can only requeue all
  // components together.
  bool IsComponent() const { return name.find('+') != std::string::npos; }
  bool Held() const;
  // Returns true if the job still has processes or Slurm has not yet reported that they exited.
  bool Runs() const;
  // Returns `gres` with the amount of "carma" replaced by `gib`.
  std::string GresWith(std::int64_t gib) const;
  // Returns true if the job may be requeued, that is, if it is running or its script has just
  // failed. False if it was cancelled or reached its time limit.
  bool MayGoBack() const;
};

// The columns for squeue's option -O (with --noheader --array --states=all).
extern const char* const kJobColumns;
inline constexpr std::size_t kMostOfSqueue = 1 << 20;
inline constexpr std::size_t kMostOfComment = 300;  // longer comments are truncated

// Finds the job with this id; empty if there is none. Returns kInvalid if its line is malformed or
// does not describe a job.
Result<std::optional<Job>> FindJob(std::string_view text, std::uint64_t id);

}  // namespace carma::slurm
