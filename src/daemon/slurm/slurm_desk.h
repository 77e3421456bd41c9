// Communication with Slurm on a server that runs tasks of Slurm's jobs.
#pragma once

#include <memory>
#include <utility>

#include "daemon/slurm/claim_questions.h"
#include "daemon/slurm/returning_jobs.h"
#include "daemon/slurm/waiting_jobs.h"

namespace carma::daemon {

struct SlurmDesk {
  SlurmDesk(const std::shared_ptr<boost::asio::io_context>& loop, const SlurmPrograms& programs,
            std::string node, ReturningJobs::Keep keep, WaitingJobs::List waiting_jobs)
      : returning(loop, programs, {}, std::move(keep)),
        claims(loop, programs),
        waiting(loop, programs, {.node = std::move(node)}, std::move(waiting_jobs)) {}

  ReturningJobs returning;
  ClaimQuestions claims;
  WaitingJobs waiting;
};

}  // namespace carma::daemon
