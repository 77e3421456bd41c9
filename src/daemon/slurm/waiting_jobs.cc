#include "daemon/slurm/waiting_jobs.h"

#include "base/log.h"

namespace carma::daemon {
namespace {

// Comments written by people are kept.
Result<std::string> Tell(const SlurmPrograms& programs,
                         const slurm::WaitComments::Comment& comment) {
  const auto job = programs.Find(comment.job);
  if (!job) return std::unexpected(job.error());
  const bool may =
      *job && ((*job)->admin_comment.empty() || slurm::IsOfWaits((*job)->admin_comment));
  if (!may) return "";
  return programs.Control({"update", "JobId=" + (*job)->name, "AdminComment=" + comment.text});
}

}  // namespace

WaitingJobs::WaitingJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
                         WaitingJobsOptions options, List all)
    : programs_(std::move(programs)),
      every_(options.every),
      comments_(std::move(options.node), options.quiet),
      all_(std::move(all)),
      worker_(loop, BackgroundWorker::AtEnd::kLeave),
      again_(*loop) {
  Look();
}

void WaitingJobs::Look() {
  const auto next = comments_.Next(std::chrono::steady_clock::now(), all_());
  if (!next) return LookAgain();
  worker_.Ask([programs = programs_, comment = *next] { return Tell(programs, comment); },
              [this](const Result<std::string>& told) {
                if (told) return Look();  // more than one may be due
                base::LogWarn("wait_not_told", {{"why", told.error().message}});
                LookAgain();
              });
}

void WaitingJobs::LookAgain() {
  again_.Set(every_, [this] { Look(); });
}

}  // namespace carma::daemon
