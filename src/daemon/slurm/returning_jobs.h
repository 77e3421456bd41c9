// Jobs of Slurm's that ran out of GPU memory, on their way back into its queue
// (slurm/job_return.h): one program after another, on a thread. What is about to be done is durable
// before it is done, so a daemon that is killed at any point goes on with the next.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "core/values/task.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"
#include "daemon/slurm/slurm_programs.h"
#include "slurm/job_return.h"
#include "store/store.h"

namespace carma::daemon {

store::JobReturnRow RowOf(core::TaskId task, const slurm::JobReturn& back);

// All real time.
struct ReturningJobsOptions {
  std::chrono::milliseconds look_again{500};       // at a job on its way
  std::chrono::milliseconds after_failure{5'000};  // of a program
};

class ReturningJobs {
 public:
  // Calls `done` once the row, and what is told of it (empty: nothing), are durable; with an error
  // where they are not.
  using Keep = std::function<void(store::JobReturnRow row, std::string told,
                                  std::function<void(base::Result<base::Unit>)> done)>;
  ReturningJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
                ReturningJobsOptions options, Keep keep);

  // One that is durable; of an earlier life, too.
  void Take(const store::JobReturnRow& row);
  // Of a job that is being put back: it must not end before Slurm knows of that.
  bool Holds(core::TaskId task) const;
  std::size_t size() const { return returns_.size(); }

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

  std::shared_ptr<boost::asio::io_context> loop_;
  const SlurmPrograms programs_;
  const ReturningJobsOptions options_;
  Keep keep_;
  std::map<core::TaskId, Returning> returns_;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
