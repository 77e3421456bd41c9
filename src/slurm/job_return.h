// A job of Slurm's that ran out of GPU memory, was ended by a neighbour or asked to leave its GPUs,
// on its way back into the queue with what it needs. Pure: each step follows from what was asked
// and from what Slurm shows, so after a crash anywhere the next look goes on; every step may be
// repeated.
#pragma once

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

// The step that comes next, as far as is known: it may have been done already.
enum class ReturnStep {
  kAsked,    // nothing was done
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

// Kept until the job waits again with its new claim, or cannot come back.
struct JobReturn {
  std::uint64_t job = 0;
  // Of the run that has failed; empty: nobody has asked Slurm yet, which alone knows for certain.
  std::optional<int> restart;
  int retries = 0;             // how often it may be; of a victim, whatever the causes were
  std::int64_t claim_gib = 0;  // what it asks for from now on; 0: as before
  std::string comment;         // for sacct, one line
  ReturnStep step = ReturnStep::kAsked;
  int refusals = 0;  // of this step

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& back) {
    field("job", back.job, "", {.low = 1, .required = true});
    field("restart", back.restart, "", {.low = 0});
    field("retries", back.retries, "", {.low = 0});
    field("claim_gib", back.claim_gib, "", {.low = 0});
    field("comment", back.comment, "", {.max_bytes = 400});
    field("step", back.step, "");
    field("refusals", back.refusals, "", {.low = 0});
  }
  friend bool operator==(const JobReturn&, const JobReturn&) = default;
};

// How often it was started again because its memory ran out, as its comment says: "… retry 2 of 3".
// Restarts by other causes (a neighbour, a node, a person) are none of these.
int RetriesToldIn(std::string_view admin_comment);

// A step that Slurm refuses so often is given up.
inline constexpr int kMostRefusals = 20;

struct NextStep {
  enum class What {
    kRun,   // words after scontrol's own path; `step` is to be durable before
    kWait,  // look again
    kDone,  // it waits or runs again
    kGiveUp,
  };
  What what = What::kWait;
  ReturnStep step = ReturnStep::kAsked;
  std::vector<std::string> words;
  std::string why;  // kGiveUp: one sentence
};

// The same, once Slurm has shown the job: which of its runs it was.
JobReturn Begun(JobReturn back, const Job& job);
// job: as Slurm shows it now; empty: Slurm does not know it.
NextStep Next(const JobReturn& back, const std::optional<Job>& job);
// Slurm has done that step.
JobReturn After(JobReturn back, ReturnStep done);

// What a run that has failed had, and how often it may be tried.
struct FailedRun {
  // False: a victim of a neighbour or of its GPU, or one that was asked to leave; it claims the
  // same.
  bool out_of_memory = false;
  bool left = false;  // it was asked to save, as by a drain, and goes on elsewhere or later
  int most_retries = 3;
  int gpus = 1;
  std::int64_t had_mib = 0;     // of each GPU
  std::int64_t wanted_mib = 0;  // of each GPU, next time
  std::int64_t most_mib = 0;    // of a GPU of this node; a run that had that much is not repeated
  std::string node;
  std::uint64_t job = 0;
};
// What is to be done for it. Errors: kConflict: nothing, and why not in a sentence.
base::Result<JobReturn> ReturnOf(const FailedRun& run);

}  // namespace carma::slurm

namespace carma {
template <>
inline constexpr base::Words<slurm::ReturnStep> base::kWordsOf<slurm::ReturnStep> =
    slurm::kReturnWords;
}  // namespace carma
