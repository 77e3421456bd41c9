#include "slurm/job_return.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "slurm/elsewhere.h"
#include "slurm/waits.h"

namespace carma::slurm {
namespace {

constexpr std::int64_t kMibPerGib = 1'024;
// Limit on restarts for causes other than the job itself running out of GPU memory.
constexpr int kMostVictimRestarts = 10;
// A job that was asked to leave is not at fault, but after this many departures something else must
// be wrong.
constexpr int kMostDepartures = 1'000;
constexpr std::string_view kOurs = "carma: ";
constexpr std::string_view kBeside = " | carma: ";  // kOurs after another person's comment
constexpr std::string_view kRetry = ", retry ";

NextStep Run(ReturnStep step, std::vector<std::string> words) {
  return {NextStep::What::kRun, step, std::move(words), {}};
}
NextStep GiveUp(std::string why) {
  return {NextStep::What::kGiveUp, {}, {}, std::move(why)};
}

// The offset of CARMA's part of a comment, which comes after other people's text. If there is no
// such part, this is the comment's size.
std::size_t OursIn(std::string_view comment) {
  return comment.starts_with(kOurs) ? 0 : std::min(comment.rfind(kBeside), comment.size());
}

// Arguments of the scontrol call that changes the job; empty if there is nothing to change.
std::vector<std::string> Changes(const JobReturn& back, const Job& job) {
  std::vector<std::string> words{"update", "JobId=" + job.name};
  // Slurm may refuse the claim, for example if no node has that much memory. In that case, only the
  // comment is set.
  if (back.claim_gib > 0 && job.carma_gib > 0 && back.refusals < kMostRefusals / 2)
    words.push_back("Gres=" + job.GresWith(back.claim_gib));
  std::string comment = job.admin_comment.substr(0, OursIn(job.admin_comment));
  if (!comment.empty()) comment += " | ";
  comment += back.comment;
  // Do not set a longer comment: squeue would truncate it, and other people's text would be lost.
  if (comment.size() < kMostOfComment) words.push_back("AdminComment=" + comment);
  return words.size() > 2 ? words : std::vector<std::string>();
}

// The next step while Slurm still shows the failed run.
NextStep SendBack(const JobReturn& back, const Job& job) {
  if (!job.batch) return GiveUp("Slurm restarts only batch scripts");
  if (job.IsComponent()) return GiveUp("it is part of a heterogeneous job");
  if (!job.requeue) return GiveUp("it was submitted with --no-requeue");
  if (!job.MayGoBack()) return GiveUp(fmt::format("the job has ended ({})", job.state));
  const bool more = back.claim_gib > 0;
  const int had = more ? RetriesToldIn(job.admin_comment) : job.restarts;
  // A user can replace CARMA's comment, which holds the retry count, so the number of restarts is
  // limited too.
  const int most = more ? back.retries + kMostVictimRestarts : back.retries;
  if (had >= back.retries || job.restarts >= most) {
    return GiveUp(fmt::format("no retries left after {} restart{}", job.restarts,
                              job.restarts == 1 ? "" : "s"));
  }
  return Run(ReturnStep::kRequeue, {"requeuehold", job.name});
}

NextStep Done() {
  return {NextStep::What::kDone, {}, {}, {}};
}
// Returns true if Slurm is moving the job back to its queue.
bool IsUnderway(const Job& job) {
  return job.state == "COMPLETING" || job.state.starts_with("REQUEUE");
}

// Keeps watching a job that has ended, because it may still be requeued.
NextStep Watch() {
  return {NextStep::What::kWatch, ReturnStep::kRelease, {}, {}};
}

// Requeues the job so that it can start on another node, provided that the same run is still
// waiting for GPUs on this node.
NextStep SendElsewhere(const Job& job) {
  if (std::string why = WhyItStays(job); !why.empty()) return GiveUp(std::move(why));
  if (job.excluded != "") return GiveUp("it excludes nodes");
  return Run(ReturnStep::kRequeue, {"requeuehold", job.name});
}

NextStep Exclude(const JobReturn& back, const Job& job) {
  std::vector<std::string> words{"update", "JobId=" + job.name, "ExcNodeList=" + back.exclude};
  if (const auto comment = WithWait(job.admin_comment, back.comment))
    words.push_back("AdminComment=" + *comment);
  return Run(ReturnStep::kRaise, std::move(words));
}

NextStep NextElsewhere(const JobReturn& back, const Job& job, bool long_in_queue) {
  const int restart = back.restart.value_or(job.restarts);
  const bool first = job.restarts == restart + 1;
  if (job.restarts == restart) return SendElsewhere(job);
  // Returning to this node is better than being held forever.
  if (back.step == ReturnStep::kRaise && back.refusals >= kMostRefusals / 2 && job.Held())
    return Run(ReturnStep::kRelease, {"release", job.name});
  const bool excludes = job.excluded == back.exclude;
  if (back.step != ReturnStep::kRelease && !excludes) {
    if (job.Waits() && first) return Exclude(back, job);
    return first && IsUnderway(job) ? NextStep{} : Done();
  }
  if (job.Waits() && first && job.reason == kHeldByRequeue)
    return Run(ReturnStep::kRelease, {"release", job.name});
  if (!excludes) return Done();
  if (job.Waits() && (!first || long_in_queue))
    return Run(ReturnStep::kRelease, {"update", "JobId=" + job.name, "ExcNodeList="});
  return Watch();
}

}  // namespace

int RetriesToldIn(std::string_view admin_comment) {
  admin_comment = WithoutWait(admin_comment);
  admin_comment.remove_prefix(OursIn(admin_comment));
  const std::size_t at = admin_comment.rfind(kRetry);
  if (at == std::string_view::npos) return 0;
  const std::vector<std::string_view> words = base::SplitWords(admin_comment.substr(at + 1));
  const auto number = words.size() > 1 ? base::ParseInt(words[1]) : std::nullopt;
  return static_cast<int>(std::clamp<std::int64_t>(number.value_or(0), 0, 1'000'000));
}

JobReturn Begun(JobReturn back, const Job& job) {
  if (back.restart) return back;
  back.restart = job.restarts;
  back.on_hold = job.on_hold;
  back.comment = WithNodeName(std::move(back.comment),
                              job.node_list.empty() ? "its node" : std::string_view(job.node_list));
  const int had = RetriesToldIn(job.admin_comment);
  if (back.claim_gib > 0) {
    back.comment += fmt::format("{}{} of {}", kRetry, had + 1, back.retries);
  } else if (had > 0) {  // counting continues from this number
    const std::string_view told = WithoutWait(job.admin_comment);
    back.comment += told.substr(told.rfind(kRetry));
  }
  return back;
}

NextStep Next(const JobReturn& back, const std::optional<Job>& job, bool long_in_queue) {
  const bool raises = back.step == ReturnStep::kRaise && back.exclude.empty();
  if (back.refusals >= kMostRefusals && !raises) return GiveUp("Slurm refuses to change the job");
  if (!job && !back.exclude.empty()) return Done();
  if (!job) return GiveUp("Slurm no longer lists the job");
  if (!back.exclude.empty()) return NextElsewhere(back, *job, long_in_queue);
  const int restart = back.restart.value_or(job->restarts);
  if (job->restarts > restart + 1) return Done();  // the job was restarted by someone else
  if (job->Waits()) {
    // If Slurm has refused to change the job, it is released unchanged.
    std::vector<std::string> words = Changes(back, *job);
    if (back.step != ReturnStep::kRelease && back.refusals < kMostRefusals && !words.empty())
      return Run(ReturnStep::kRaise, std::move(words));
    return job->Held() && !back.on_hold ? Run(ReturnStep::kRelease, {"release", job->name})
                                        : Done();
  }
  if (job->restarts == restart) return SendBack(back, *job);
  // If Slurm is not requeueing the job, a user has released it.
  return IsUnderway(*job) ? NextStep{} : Done();
}

JobReturn After(JobReturn back, ReturnStep done) {
  back.refusals = 0;
  // CARMA does not read back the claim and the comment, so kRaise is repeated until scontrol
  // reports success.
  if (done == ReturnStep::kRaise) back.step = ReturnStep::kRelease;
  return back;
}

Result<JobReturn> ReturnOf(const FailedRun& run) {
  JobReturn back{.job = run.job, .retries = run.most_retries};
  if (run.left) {
    back.retries = kMostDepartures;
    back.comment =
        fmt::format("carma: had to leave its GPUs on {}; will continue later", kNodePlace);
    return back;
  }
  if (!run.out_of_memory) {
    back.retries = kMostVictimRestarts;
    back.comment =
        fmt::format("carma: killed by a fault in another task or in the GPU on {}", kNodePlace);
    return back;
  }
  if (run.most_retries == 0) return Conflict("it does not allow retries");
  if (run.most_mib > 0 && run.had_mib >= run.most_mib)
    return Conflict("it already had a whole GPU");
  const std::int64_t next_mib =
      run.most_mib > 0 ? std::min(run.wanted_mib, run.most_mib) : run.wanted_mib;
  const std::int64_t all_mib = next_mib * std::max(1, run.gpus);
  // Rounds down if the claim covers all of the GPUs' memory, so that it fits; otherwise rounds up.
  back.claim_gib = next_mib == run.most_mib ? std::max<std::int64_t>(1, all_mib / kMibPerGib)
                                            : (all_mib + kMibPerGib - 1) / kMibPerGib;
  back.comment = fmt::format("carma: out of GPU memory on {} (claim raised from {} to {})",
                             kNodePlace, base::FormatMib(run.had_mib), base::FormatMib(next_mib));
  return back;
}

JobReturn LeaveNode(const Job& job) {
  return {
      .job = job.id,
      .restart = job.restarts,
      .comment = fmt::format("carma: waited for GPUs on {}; moving to another node", job.node_list),
      .exclude = job.node_list};
}

}  // namespace carma::slurm
