// Finds Slurm jobs that are waiting here for GPUs while another node has room for them
// (slurm/elsewhere.h). ReturningJobs then moves them to that node, one at a time.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "core/values/ids.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"
#include "daemon/slurm/slurm_programs.h"
#include "slurm/job_return.h"

namespace carma::daemon {

// A batch job that is waiting here for GPUs and has not started yet.
struct LeavingJob {
  core::TaskId task{};
  std::uint64_t job = 0;
  bool soon = false;  // the job is expected to start here soon
};

// All times are real time, as in Slurm.
struct LeavingJobsOptions {
  std::chrono::milliseconds every{10'000};   // between checks
  std::chrono::milliseconds after{120'000};  // minimum wait of a job
  std::chrono::milliseconds trust{360'000};  // minimum wait of a job expected to start soon
  // Interval between checks of the same job. If no node has room or Slurm does not respond, no job
  // is checked for this long.
  std::chrono::milliseconds again{60'000};
  std::chrono::milliseconds once{3'600'000};  // pause after a move that did not help
};

class LeavingJobs {
 public:
  struct Calls {
    // Returns the jobs that are waiting now, in order of arrival.
    std::function<std::vector<LeavingJob>()> waiting;
    // True if a job is already being moved to another node.
    std::function<bool()> busy;
    // Starts moving a job to another node. Calls `done` once the plan is stored or storing it has
    // failed.
    std::function<void(core::TaskId, const slurm::JobReturn&, std::function<void()> done)> send;
  };
  // All callbacks run on the loop.
  LeavingJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
              LeavingJobsOptions options, Calls calls);

  // True if the task's lease must not be adopted because its job is about to be moved: `send` was
  // called, but has not yet called `done`.
  bool Leaves(core::TaskId task) const { return leaves_ == task; }

 private:
  using Moment = std::chrono::steady_clock::time_point;
  struct Wait {
    Moment since, next_check;
  };
  // What Slurm's response means for the job.
  struct Answer {
    std::optional<slurm::JobReturn> plan;
    bool no_room = false;  // no node has room for the job
  };
  static Result<Answer> AskSlurm(const SlurmPrograms& programs, std::uint64_t job);

  void Look();
  void LookAgain(std::chrono::milliseconds wait);
  void Take(const LeavingJob& of, const Result<Answer>& answer);
  std::optional<LeavingJob> FirstDue(Moment now);

  const SlurmPrograms programs_;
  const LeavingJobsOptions options_;
  Calls calls_;
  std::map<core::TaskId, Wait> waits_;
  std::optional<core::TaskId> leaves_;
  BackgroundWorker worker_;
  Alarm again_;
};

}  // namespace carma::daemon
