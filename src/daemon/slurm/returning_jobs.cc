#include "daemon/slurm/returning_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/fields_json.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

namespace carma::daemon {

store::JobReturnRow RowOf(core::TaskId task, const slurm::JobReturn& back) {
  return {task, base::DumpJson(base::FieldsToJson(back, base::Absent::kLeftOut))};
}

ReturningJobs::ReturningJobs(std::shared_ptr<boost::asio::io_context> loop, SlurmPrograms programs,
                             ReturningJobsOptions options, Keep keep, Runs runs)
    : loop_(loop),
      programs_(std::move(programs)),
      options_(options),
      keep_(std::move(keep)),
      runs_(std::move(runs)),
      worker_(std::move(loop), BackgroundWorker::AtEnd::kLeave) {}

void ReturningJobs::Take(const store::JobReturnRow& row) {
  if (!row.description || returns_.contains(row.task)) return;
  const Result<base::Json> json = base::ParseJson(*row.description);
  Result<slurm::JobReturn> back =
      json ? base::FieldsFromJson<slurm::JobReturn>(*json, "", base::Unknown::kPassedOver)
           : std::unexpected(json.error());
  if (!back) {
    return base::LogWarn("job_return_not_read",
                         {{"task", row.task}, {"why", back.error().message}});
  }
  base::LogInfo("job_returns", {{"task", row.task}, {"job", back->job}});
  returns_.emplace(row.task, Returning{*std::move(back), std::make_unique<Alarm>(*loop_)});
  Look(row.task);
}

bool ReturningJobs::Holds(core::TaskId task) const {
  const auto found = returns_.find(task);
  return found == returns_.end() || !found->second.sent;
}

bool ReturningJobs::Leaves(core::TaskId task) const {
  const auto found = returns_.find(task);
  return found != returns_.end() && !found->second.back.exclude.empty() && !found->second.released;
}

bool ReturningJobs::SendsElsewhere() const {
  return std::ranges::any_of(returns_, [](const auto& each) {
    return !each.second.back.exclude.empty() && !each.second.elsewhere;
  });
}

void ReturningJobs::LookAgain(core::TaskId task, std::chrono::milliseconds wait) {
  const auto found = returns_.find(task);
  if (found != returns_.end()) found->second.again->Set(wait, [this, task] { Look(task); });
}

void ReturningJobs::Look(core::TaskId task) {
  const auto found = returns_.find(task);
  if (found == returns_.end()) return;
  const slurm::JobReturn& back = found->second.back;
  worker_.Ask(
      [programs = programs_, job = back.job, elsewhere = !back.exclude.empty()] {
        return elsewhere ? programs.FindWithExcluded(job) : programs.Find(job);
      },
      [this, task](const Result<std::optional<slurm::Job>>& seen) {
        if (seen) return Decide(task, *seen);
        base::LogWarn("slurm_not_asked", {{"task", task}, {"why", seen.error().message}});
        // The job is still waiting here for GPUs, so the move is dropped instead of making the job
        // wait for Slurm as well.
        if (returns_.at(task).back.MayBeDropped()) return Leave(task, "");
        LookAgain(task, options_.after_failure);
      });
}

void ReturningJobs::Decide(core::TaskId task, const std::optional<slurm::Job>& job) {
  const auto found = returns_.find(task);
  if (found == returns_.end()) return;
  slurm::JobReturn& back = found->second.back;
  if (job) back = slurm::Begun(back, *job);
  const bool elsewhere = !back.exclude.empty();
  const auto now = std::chrono::steady_clock::now();
  auto& released = found->second.released;
  const bool late = released && now - *released >= slurm::kLongInQueue;
  const slurm::NextStep next = slurm::Next(back, job, late);
  if (next.step != slurm::ReturnStep::kRequeue) found->second.sent = true;
  switch (next.what) {
    case slurm::NextStep::What::kWait:
      return LookAgain(task, options_.look_again);
    case slurm::NextStep::What::kWatch:
      if (!released) released = now;
      found->second.elsewhere = late || job->Runs();
      return LookAgain(task, found->second.elsewhere ? options_.watch : options_.after_failure);
    case slurm::NextStep::What::kRun:
      if (elsewhere && next.step == slurm::ReturnStep::kRequeue && runs_(task))
        return Leave(task, "");
      return Do(task, next);
    case slurm::NextStep::What::kDone:
      return Leave(task, elsewhere ? "" : fmt::format("job {} is back in Slurm's queue", back.job));
    case slurm::NextStep::What::kGiveUp:
      return Leave(task, fmt::format("job {} is not {}: {}", back.job,
                                     elsewhere ? "sent elsewhere" : "requeued", next.why));
  }
}

void ReturningJobs::Do(core::TaskId task, const slurm::NextStep& next) {
  slurm::JobReturn& back = returns_.at(task).back;
  if (back.step != next.step) back.refusals = 0;
  const bool known = back.step == next.step && back.refusals == 0;
  back.step = next.step;
  const auto run = [this, task, next](const Result<Unit>& kept) {
    if (!kept) return LookAgain(task, options_.after_failure);
    base::LogInfo("slurm_asked", {{"task", task}, {"words", base::Join(next.words, " ")}});
    worker_.Ask([programs = programs_, words = next.words] { return programs.Control(words); },
                [this, task, step = next.step](const Result<std::string>& done) {
                  const auto found = returns_.find(task);
                  if (found == returns_.end()) return;
                  slurm::JobReturn& tried = found->second.back;
                  if (done) {
                    found->second.sent = true;
                    tried = slurm::After(tried, step);
                    return Look(task);
                  }
                  ++tried.refusals;
                  base::LogWarn("slurm_refused", {{"task", task}, {"why", done.error().message}});
                  LookAgain(task, options_.look_again);
                });
  };
  if (known) return run(Unit{});
  const bool first = next.step == slurm::ReturnStep::kRequeue && back.refusals == 0;
  keep_(RowOf(task, back), first ? back.comment : "", run);
}

void ReturningJobs::Leave(core::TaskId task, const std::string& told) {
  keep_({task, std::nullopt}, told, [this, task, told](const Result<Unit>& kept) {
    if (!kept) return LookAgain(task, options_.after_failure);
    base::LogInfo("job_return_done", {{"task", task}, {"what", told}});
    returns_.erase(task);
  });
}

}  // namespace carma::daemon
