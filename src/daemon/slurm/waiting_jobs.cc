#include "daemon/slurm/waiting_jobs.h"

#include "base/log.h"
#include "base/try.h"

namespace carma::daemon {
namespace {

// Writes the comment, unless a person wrote the existing one. At the end of a wait, also keeps a
// comment that says that the job waits on another node. Returns the node's name in Slurm, which may
// differ from the host name.
Result<std::string> Tell(const SlurmPrograms& programs, const slurm::WaitComments::Comment& comment,
                         std::string node) {
  const auto job = CARMA_TRY(programs.Find(comment.job));
  if (!job) return node;
  if (comment.only_if_waiting && !slurm::IsWaiting(job->admin_comment)) return node;
  if ((comment.waits || comment.only_if_waiting) && job->nodes == 1 && !job->node_list.empty())
    node = job->node_list;
  // If this is the job's only node, a comment that names another node is out of date.
  const bool outdated = comment.only_if_waiting && job->nodes == 1;
  if (!comment.waits && !outdated && slurm::IsWaiting(job->admin_comment) &&
      !slurm::IsWaiting(job->admin_comment, node))
    return node;
  const auto text = slurm::WithWait(job->admin_comment, slurm::WithNodeName(comment.text, node));
  if (!text) return node;
  CARMA_TRY(programs.Control({"update", "JobId=" + job->name, "AdminComment=" + *text}));
  return node;
}

}  // namespace

WaitingJobs::WaitingJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
                         WaitingJobsOptions options, List all)
    : programs_(std::move(programs)),
      every_(options.every),
      node_(std::move(options.node)),
      comments_(options.quiet),
      all_(std::move(all)),
      worker_(loop, BackgroundWorker::AtEnd::kLeave),
      again_(*loop) {
  Look();
}

void WaitingJobs::Look() {
  const auto next = comments_.Next(std::chrono::steady_clock::now(), all_());
  if (!next) return LookAgain();
  worker_.Ask([programs = programs_, comment = *next,
               node = node_] { return Tell(programs, comment, node); },
              [this](const Result<std::string>& node) {
                if (node) {
                  node_ = *node;
                  return Look();  // several comments may be due
                }
                base::LogWarn("wait_not_told", {{"why", node.error().message}});
                LookAgain();
              });
}

void WaitingJobs::LookAgain() {
  again_.Set(every_, [this] { Look(); });
}

}  // namespace carma::daemon
