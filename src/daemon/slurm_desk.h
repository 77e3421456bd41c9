// Puts jobs of Slurm's that ran out of GPU memory back into its queue (slurm/job_return.h), by its
// own programs: on a thread, one after another. What it is about to do is durable before it is
// done, so a daemon that is killed at any point goes on with the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/task.h"
#include "daemon/alarm.h"
#include "daemon/background_worker.h"
#include "slurm/job_return.h"
#include "slurm/waits.h"
#include "store/store.h"

namespace carma::daemon {

struct SlurmDeskOptions {
  std::string scontrol = "/usr/bin/scontrol";
  std::string squeue = "/usr/bin/squeue";
  std::chrono::milliseconds look_again{500};       // at a job on its way, all real time
  std::chrono::milliseconds after_failure{5'000};  // of a program
  std::chrono::milliseconds limit{30'000};         // of a program's run; then it is killed
  std::chrono::milliseconds waits_every{2'000};    // those that wait are looked at
  std::chrono::milliseconds wait_quiet{10'000};    // and told when they have waited for so long
};

store::JobReturnRow RowOf(core::TaskId task, const slurm::JobReturn& back);

// What a program said; errors: kUnavailable: it could not be run, took too long or failed, with its
// last words.
base::Result<std::string> RunOfSlurm(const std::vector<std::string>& words,
                                     std::chrono::milliseconds limit);
// The job as squeue shows it; empty: Slurm does not know it.
base::Result<std::optional<slurm::Job>> AskForJob(const std::string& squeue, std::uint64_t job,
                                                  std::chrono::milliseconds limit);

class SlurmDesk {
 public:
  // Calls `done` once the row, and what is told of it (empty: nothing), are durable; with an error
  // where they are not.
  using Keep = std::function<void(store::JobReturnRow row, std::string told,
                                  std::function<void(base::Result<base::Unit>)> done)>;
  SlurmDesk(std::shared_ptr<boost::asio::io_context> loop, SlurmDeskOptions options, Keep keep);

  // One that is durable; of an earlier life, too.
  void Take(const store::JobReturnRow& row);
  // From now on jobs that wait here for GPUs show it in their AdminComment.
  void TellWaiting(std::string node, std::function<std::vector<slurm::WaitingJob>()> waiting);
  // What a job claims, GiB on each node; empty: that cannot be said. Calls back on the loop. All
  // who ask while squeue is being asked share the next question.
  using TakeClaim = std::function<void(std::optional<std::int64_t>)>;
  void AskClaim(std::uint64_t job, TakeClaim call);
  // Of a job that is being put back: it must not end before Slurm knows of that.
  bool Holds(core::TaskId task) const;
  std::size_t waiting() const { return returns_.size(); }

 private:
  struct Returning {
    slurm::JobReturn back;
    std::unique_ptr<Alarm> again;
    bool sent = false;  // Slurm knows that it goes back
  };

  void Look(core::TaskId task);
  void LookAgain(core::TaskId task, std::chrono::milliseconds wait);
  void Decide(core::TaskId task, const std::optional<slurm::Job>& job);
  void Do(core::TaskId task, const slurm::NextStep& next);
  void Leave(core::TaskId task, const std::string& told);
  void LookAtWaiting();
  void AskClaims();

  std::shared_ptr<boost::asio::io_context> loop_;
  const SlurmDeskOptions options_;
  Keep keep_;
  std::map<core::TaskId, Returning> returns_;
  BackgroundWorker worker_;
  BackgroundWorker claims_;
  std::vector<std::pair<std::uint64_t, TakeClaim>> claims_asked_;  // by the next question
  bool asking_claims_ = false;
  BackgroundWorker comments_;
  std::optional<slurm::WaitComments> wait_comments_;
  std::function<std::vector<slurm::WaitingJob>()> waiting_jobs_;
  Alarm waits_again_;
};

}  // namespace carma::daemon
