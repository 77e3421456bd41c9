// Requeues Slurm jobs that ran out of GPU memory or are waiting on a full node
// (slurm/job_return.h). Slurm's programs run one after another on a separate thread. Each step is
// stored before it is carried out, so that it can be completed after a crash.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "core/values/ids.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"
#include "daemon/slurm/slurm_programs.h"
#include "slurm/job_return.h"
#include "store/store.h"

namespace carma::daemon {

store::JobReturnRow RowOf(core::TaskId task, const slurm::JobReturn& back);

// All times are real time.
struct ReturningJobsOptions {
  std::chrono::milliseconds look_again{500};       // between checks of a job
  std::chrono::milliseconds after_failure{5'000};  // after a program has failed
  std::chrono::milliseconds watch{30'000};  // between checks of a job that was sent to another node
};

class ReturningJobs {
 public:
  // Stores the row and adds `told` to the history unless it is empty. Then calls `done`, with an
  // error if storing failed.
  using Keep = std::function<void(store::JobReturnRow row, std::string told,
                                  std::function<void(Result<Unit>)> done)>;
  // Returns true if the task's lease was adopted. In that case, its job is not moved to another
  // node.
  using Runs = std::function<bool(core::TaskId)>;
  ReturningJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
                ReturningJobsOptions options, Keep keep, Runs runs);

  // Starts requeueing a stored job, possibly one left over from an earlier run.
  void Take(const store::JobReturnRow& row);
  // True if Slurm has not accepted the requeue of the task's job yet, so the job must not end. Also
  // true if Take() has not been called for the task.
  bool Holds(core::TaskId task) const;
  // True if the task's job is being moved to another node, so its lease must not be adopted.
  bool Leaves(core::TaskId task) const;
  // True if a job that was moved off this node has yet to start elsewhere.
  bool SendsElsewhere() const;
  std::size_t size() const { return returns_.size(); }

 private:
  struct Returning {
    slurm::JobReturn back;
    std::unique_ptr<Alarm> again;
    bool sent = false;  // Slurm has accepted the requeue
    // When Slurm released a job that is moving to another node; otherwise empty.
    std::optional<std::chrono::steady_clock::time_point> released = std::nullopt;
    bool elsewhere = false;  // has started on another node, or has waited for a long time
  };

  void Look(core::TaskId task);
  void LookAgain(core::TaskId task, std::chrono::milliseconds wait);
  void Decide(core::TaskId task, const std::optional<slurm::Job>& job);
  void Do(core::TaskId task, const slurm::NextStep& next);
  void Leave(core::TaskId task, const std::string& told);

  std::shared_ptr<boost::asio::io_context> loop_;
  const SlurmPrograms programs_;
  const ReturningJobsOptions options_;
  Keep keep_;
  Runs runs_;
  std::map<core::TaskId, Returning> returns_;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
