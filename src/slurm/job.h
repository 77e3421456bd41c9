// A job as shown by Slurm's squeue. scontrol shows more, but mixed with texts chosen by the owner
// (names, paths), which could imitate the values used here. Only administrators write the comment
// used here.
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
  std::uint64_t id = 0;  // its own, even in an array
  std::string name;      // for scontrol: "4711", "4711_3"
  std::string state;     // "RUNNING", "COMPLETING" …
  std::string reason;    // why it waits
  bool batch = false;    // Slurm has its script, so it can start it again
  bool requeue = false;  // its owner allows that
  int restarts = 0;
  bool on_hold = false;        // its priority is 0; also while it runs, for its next start
  std::int64_t carma_gib = 0;  // requested GPU memory per node; 0: none
  std::string gres;            // all that it requests of a node: "nvme:50,carma:12"
  int nodes = 1;
  std::string node_list;    // where it runs: "n0", "n[0-1]"; empty: nowhere yet
  std::string asked_nodes;  // by --nodelist, perhaps cut; empty: any
  std::string partition;
  std::string reservation;      // empty: none
  bool other_gres = false;      // requests more of a node than GPU memory, for example Slurm's GPUs
  std::int64_t cpus = 0;        // allocated
  std::int64_t memory_mib = 0;  // allocated
  std::string admin_comment;    // empty: none; may have several lines
  // The excluded nodes as from ExcludedNodes() (elsewhere.h), only for jobs that are sent
  // elsewhere.
  std::optional<std::string> excluded;
  friend bool operator==(const Job&, const Job&) = default;

  bool Waits() const { return state == "PENDING"; }
  // Whether it is a component of a heterogeneous job ("4711+1"), which Slurm requeues only as a
  // whole.
  bool IsComponent() const { return name.find('+') != std::string::npos; }
  // Whether the job is held.
  bool Held() const;
  // Whether the job's processes exist, or existed until now and their end is not yet reported.
  bool Runs() const;
  // `gres` with this claim in place of its own.
  std::string GresWith(std::int64_t gib) const;
  // Whether its run may be repeated: it runs, or its script has just failed. A job that was
  // cancelled or reached its time limit completes for another reason.
  bool MayGoBack() const;
};

// The columns for -O of `squeue --noheader --array --states=all`.
extern const char* const kJobColumns;
inline constexpr std::size_t kMostOfSqueue = 1 << 20;
inline constexpr std::size_t kMostOfComment = 300;  // longer ones are cut

// The job with this id; empty: there is none. Errors: kInvalid: its line is not of that shape, or
// no job's.
Result<std::optional<Job>> FindJob(std::string_view text, std::uint64_t id);

}  // namespace carma::slurm
