// Records in the AdminComment of Slurm jobs that they are waiting here for GPUs (slurm/waits.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"
#include "daemon/slurm/slurm_programs.h"
#include "slurm/waits.h"

namespace carma::daemon {

struct WaitingJobsOptions {
  std::string node;                         // this node's name until its name in Slurm is known
  std::chrono::milliseconds every{2'000};   // between checks; real time
  std::chrono::milliseconds quiet{10'000};  // a job is reported after waiting this long
};

class WaitingJobs {
 public:
  // all: called on the loop; returns the jobs that are waiting now.
  using List = std::function<std::vector<slurm::WaitingJob>()>;
  WaitingJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
              WaitingJobsOptions options, List all);
  // Stops updating the comment of a job that is being moved to another node.
  void Forget(std::uint64_t job) { comments_.Forget(job); }

 private:
  void Look();
  void LookAgain();

  const SlurmPrograms programs_;
  const std::chrono::milliseconds every_;
  std::string node_;
  slurm::WaitComments comments_;
  List all_;
  BackgroundWorker worker_;
  Alarm again_;
};

}  // namespace carma::daemon
