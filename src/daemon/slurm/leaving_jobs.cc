#include "daemon/slurm/leaving_jobs.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/try.h"

namespace carma::daemon {

LeavingJobs::LeavingJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
                         LeavingJobsOptions options, Calls calls)
    : programs_(std::move(programs)),
      options_(options),
      calls_(std::move(calls)),
      worker_(loop, BackgroundWorker::AtEnd::kLeave),
      again_(*loop) {
  LookAgain(options_.every);
}

Result<LeavingJobs::Answer> LeavingJobs::AskSlurm(const SlurmPrograms& programs,
                                                  std::uint64_t job) {
  const auto found = CARMA_TRY(programs.FindWithExcluded(job));
  if (!found || found->excluded != "" || !slurm::WhyItStays(*found).empty()) return Answer{};
  const auto nodes = CARMA_TRY(programs.Nodes());
  if (!slurm::NodeFor(*found, nodes)) return Answer{.no_room = true};
  return Answer{.plan = slurm::LeaveNode(*found)};
}

std::optional<LeavingJob> LeavingJobs::FirstDue(Moment now) {
  const std::vector<LeavingJob> waiting = calls_.waiting();
  std::erase_if(waits_, [&](const auto& wait) {
    return std::ranges::find(waiting, wait.first, &LeavingJob::task) == waiting.end();
  });
  for (const LeavingJob& each : waiting)
    waits_.try_emplace(each.task, Wait{now, now + options_.after});
  const auto first = std::ranges::find_if(waiting, [&](const LeavingJob& each) {
    const Wait& wait = waits_.at(each.task);
    return wait.next_check <= now && (!each.soon || now - wait.since >= options_.trust);
  });
  return first == waiting.end() ? std::nullopt : std::optional(*first);
}

void LeavingJobs::Look() {
  const Moment now = std::chrono::steady_clock::now();
  const std::optional<LeavingJob> due = FirstDue(now);
  if (!due || calls_.busy()) return LookAgain(options_.every);
  waits_.at(due->task).next_check = now + options_.again;
  worker_.Ask([programs = programs_, job = due->job] { return AskSlurm(programs, job); },
              [this, due = *due](const Result<Answer>& answer) { Take(due, answer); });
}

void LeavingJobs::LookAgain(std::chrono::milliseconds wait) {
  again_.Set(wait, [this] { Look(); });
}

void LeavingJobs::Take(const LeavingJob& of, const Result<Answer>& answer) {
  if (!answer)
    base::LogWarn("slurm_not_asked", {{"task", of.task}, {"why", answer.error().message}});
  if (!answer || answer->no_room) return LookAgain(options_.again);
  if (!answer->plan) return Look();  // the job stays, so check the next one
  const std::vector<LeavingJob> waiting = calls_.waiting();
  if (std::ranges::find(waiting, of.task, &LeavingJob::task) == waiting.end()) return Look();
  base::LogInfo("job_leaves", {{"task", of.task}, {"job", of.job}});
  leaves_ = of.task;
  waits_.at(of.task).next_check = std::chrono::steady_clock::now() + options_.once;
  calls_.send(of.task, *answer->plan, [this] {
    leaves_.reset();
    LookAgain(options_.every);
  });
}

}  // namespace carma::daemon
