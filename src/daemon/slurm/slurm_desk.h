// Everything that communicates with Slurm, for servers that run tasks of Slurm jobs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/slurm/claim_questions.h"
#include "daemon/slurm/leaving_jobs.h"
#include "daemon/slurm/returning_jobs.h"
#include "daemon/slurm/waiting_jobs.h"

namespace carma::daemon {

struct SlurmDesk {
  struct Calls {
    ReturningJobs::Keep keep;
    ReturningJobs::Runs runs;
    WaitingJobs::List waiting;
    std::function<std::vector<LeavingJob>()> may_leave;
  };
  SlurmDesk(const std::shared_ptr<boost::asio::io_context>& loop, const SlurmPrograms& programs,
            std::string host, Calls calls)
      : returning(loop, programs, {}, calls.keep, std::move(calls.runs)),
        claims(loop, programs),
        waiting(loop, programs, {.node = std::move(host)}, std::move(calls.waiting)),
        leaving(loop, programs, {},
                {.waiting = std::move(calls.may_leave),
                 .busy = [this] { return returning.SendsElsewhere(); },
                 .send =
                     [this, keep = std::move(calls.keep)](core::TaskId task,
                                                          const slurm::JobReturn& plan,
                                                          const std::function<void()>& done) {
                       waiting.Forget(plan.job);
                       keep(RowOf(task, plan), "", [done](const auto&) { done(); });
                     }}) {}

  // True if the task's job is being moved to another node.
  bool Leaves(core::TaskId task) const { return returning.Leaves(task) || leaving.Leaves(task); }

  ReturningJobs returning;
  ClaimQuestions claims;
  WaitingJobs waiting;
  LeavingJobs leaving;
};

}  // namespace carma::daemon
