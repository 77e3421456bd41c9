// Pure functions that plan the requeue of a Slurm job, step by step. A job is requeued if it ran
// out of GPU memory, was killed by a neighbour's fault, was asked to leave its GPUs, or waits on a
// full node. A job that ran out of memory gets a larger claim. Each step depends only on the
// request and Slurm's state and may be repeated, so a crash at any point does no harm.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/words.h"
#include "slurm/job.h"

namespace carma::slurm {

// The next step, which may already have been taken before a crash.
enum class ReturnStep {
  kAsked,    // nothing has been done yet
  kRequeue,  // scontrol requeuehold
  kRaise,    // scontrol update
  kRelease,  // scontrol release
};
inline constexpr std::pair<ReturnStep, std::string_view> kReturnWords[] = {
    {ReturnStep::kAsked, "asked"},
    {ReturnStep::kRequeue, "requeue"},
    {ReturnStep::kRaise, "raise"},
    {ReturnStep::kRelease, "release"},
};

// A requeue in progress. Stored until the job is waiting in Slurm's queue with its new claim, or
// until it turns out that the job cannot be requeued.
struct JobReturn {
  std::uint64_t job = 0;
  // The restart count of the failed run; empty until it has been read from Slurm.
  std::optional<int> restart;
  int retries = 0;             // allowed retries; for a victim, allowed restarts for any cause
  std::int64_t claim_gib = 0;  // the new claim; 0: unchanged
  std::string comment;         // for sacct, one line; contains kNodePlace (waits.h) until Begun()
  // The node that the job is being moved off; empty if it is not being moved. Slurm cannot change
  // the excluded nodes of a running job, so CARMA excludes this node once the job is back in
  // Slurm's queue.
  std::string exclude;
  bool on_hold = false;  // a user held the job while it ran, so it is not released
  ReturnStep step = ReturnStep::kAsked;
  int refusals = 0;  // how often Slurm has refused this step

  // Returns true if the requeue may be dropped, because it only moves the job to another node and
  // no step has been taken yet.
  bool MayBeDropped() const { return !exclude.empty() && step == ReturnStep::kAsked; }

  static void VisitFields(auto& field, auto& back) {
    field("job", back.job, "", {.low = 1, .required = true});
    field("restart", back.restart, "", {.low = 0});
    field("retries", back.retries, "", {.low = 0});
    field("claim_gib", back.claim_gib, "", {.low = 0});
    field("comment", back.comment, "", {.max_bytes = 400});
    field("exclude", back.exclude, "", {.max_bytes = 300});
    field("on_hold", back.on_hold, "");
    field("step", back.step, "");
    field("refusals", back.refusals, "", {.low = 0});
  }
  friend bool operator==(const JobReturn&, const JobReturn&) = default;
};

// Number of out-of-memory retries according to the comment ("… retry 2 of 3"). Restarts for other
// causes (a neighbour, a node, an administrator) are not counted.
int RetriesToldIn(std::string_view admin_comment);

// Number of times Slurm may refuse a step before the requeue is abandoned.
inline constexpr int kMostRefusals = 20;

struct NextStep {
  enum class What {
    kRun,    // call scontrol with these words; `step` must be durable first
    kWait,   // check again
    kWatch,  // check again, but rarely, because the job has left this node
    kDone,   // the job is waiting or running again
    kGiveUp,
  };
  What what = What::kWait;
  ReturnStep step = ReturnStep::kAsked;
  std::vector<std::string> words;
  std::string why;  // kGiveUp: one sentence
};

// After this time in Slurm's queue, a job that was moved off its node may run on any node again.
inline constexpr std::chrono::minutes kLongInQueue{5};

// Sets the run's restart count and node from the job as shown by Slurm.
JobReturn Begun(JobReturn back, const Job& job);
// job: as Slurm shows it now; empty if Slurm no longer lists it. long_in_queue: whether
// kLongInQueue has passed since the job was released.
NextStep Next(const JobReturn& back, const std::optional<Job>& job, bool long_in_queue = false);
// Returns the plan after Slurm has carried out the step.
JobReturn After(JobReturn back, ReturnStep done);

// A failed run and the memory and retry limits of its job.
struct FailedRun {
  // False if the job was asked to leave or was killed by a fault of another task or of its GPU. In
  // either case, its claim stays the same.
  bool out_of_memory = false;
  bool left = false;  // was asked to checkpoint, for example by a drain, and will continue later
  int most_retries = 3;
  int gpus = 1;
  std::int64_t had_mib = 0;     // on each GPU
  std::int64_t wanted_mib = 0;  // on each GPU, for the next run
  std::int64_t most_mib = 0;    // a whole GPU on this node; a run that had this much is not retried
  std::uint64_t job = 0;
};
// Plans the requeue. Returns kConflict with the reason if the job is not requeued.
Result<JobReturn> ReturnOf(const FailedRun& run);
// Plans the move of a job off the node where it waits, which must be its only node.
JobReturn LeaveNode(const Job& job);

}  // namespace carma::slurm

namespace carma {
template <>
inline constexpr base::Words<slurm::ReturnStep> base::kWordsOf<slurm::ReturnStep> =
    slurm::kReturnWords;
}  // namespace carma
