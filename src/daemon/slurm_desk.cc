#include "daemon/slurm_desk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/fields_json.h"
#include "base/json.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;

constexpr std::size_t kMostWords = 1'000;                // of what a program says when it fails
constexpr std::chrono::milliseconds kClaimLimit{2'000};  // whoever starts a step waits for it
constexpr std::size_t kMostAskedAtOnce = 500;
constexpr const char* kUnknownJob = "Invalid job id specified";

std::string Said(int fd, std::size_t most) {
  std::string said(most, '\0');
  const ssize_t read = ::pread(fd, said.data(), said.size(), 0);
  said.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  return said;
}

// Its exit status as waitpid() has it; empty: it took longer, and was killed.
std::optional<int> StatusWithin(const base::Spawned& child, std::chrono::milliseconds limit) {
  pollfd ends{child.process.get(), POLLIN, 0};
  int ready = 0;
  if (child.process) ready = ::poll(&ends, 1, static_cast<int>(limit.count()));
  if (ready != 1) ::kill(-child.pid, SIGKILL);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  return ready == 1 ? std::optional(status) : std::nullopt;
}

// Lines of those that Slurm knows.
Result<std::string> Squeue(const std::string& squeue, const std::vector<std::uint64_t>& jobs,
                           std::chrono::milliseconds limit) {
  Result<std::string> text =
      RunOfSlurm({squeue, "--noheader", "--all", "--array", "--states=all",
                  fmt::format("--jobs={}", fmt::join(jobs, ",")), "-O", slurm::kJobColumns},
                 limit);
  // Of one that it does not know it says so; of several it passes over those.
  if (!text && text.error().message.find(kUnknownJob) != std::string::npos) return "";
  return text;
}

}  // namespace

store::JobReturnRow RowOf(core::TaskId task, const slurm::JobReturn& back) {
  return {task, base::DumpJson(base::FieldsToJson(back, base::Absent::kLeftOut))};
}

Result<std::string> RunOfSlurm(const std::vector<std::string>& words,
                               std::chrono::milliseconds limit) {
  const auto failed = [&](const std::string& why) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", words.front(), why));
  };
  const Result<base::UniqueFd> input = base::MemoryFile("");
  const Result<base::UniqueFd> output = base::MemoryFile("");
  const Result<base::UniqueFd> errors = base::MemoryFile("");
  if (!input || !output || !errors) return failed("no memory or descriptor is free");
  const auto child =
      base::Spawn(words, {.files = {input->get(), output->get(), errors->get()}, .folder = "/"});
  if (!child) return failed(std::strerror(child.error()));
  const std::optional<int> status = StatusWithin(*child, limit);
  if (!status) return failed(fmt::format("no answer within {} s", limit.count() / 1000));
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0)
    return Said(output->get(), slurm::kMostOfSqueue + 1);
  std::string why = Said(errors->get(), kMostWords);
  if (base::Trim(why).empty()) why = Said(output->get(), kMostWords);  // scontrol says it there
  return failed(base::Printable(base::Trim(why), 300));
}

Result<std::optional<slurm::Job>> AskForJob(const std::string& squeue, std::uint64_t job,
                                            std::chrono::milliseconds limit) {
  const Result<std::string> text = Squeue(squeue, {job}, limit);
  if (!text) return std::unexpected(text.error());
  return slurm::FindJob(*text, job);
}

SlurmDesk::SlurmDesk(std::shared_ptr<boost::asio::io_context> loop, SlurmDeskOptions options,
                     Keep keep)
    : loop_(loop),
      options_(std::move(options)),
      keep_(std::move(keep)),
      worker_(loop, BackgroundWorker::AtEnd::kLeave),
      claims_(loop, BackgroundWorker::AtEnd::kLeave),
      comments_(loop, BackgroundWorker::AtEnd::kLeave),
      waits_again_(*loop) {}

void SlurmDesk::Take(const store::JobReturnRow& row) {
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

bool SlurmDesk::Holds(core::TaskId task) const {
  const auto found = returns_.find(task);
  return found == returns_.end() || !found->second.sent;
}

void SlurmDesk::AskClaim(std::uint64_t job, TakeClaim call) {
  claims_asked_.emplace_back(job, std::move(call));
  if (!asking_claims_) AskClaims();
}

void SlurmDesk::AskClaims() {
  asking_claims_ = !claims_asked_.empty();
  if (!asking_claims_) return;
  const auto most = static_cast<std::ptrdiff_t>(std::min(claims_asked_.size(), kMostAskedAtOnce));
  const auto rest = claims_asked_.begin() + most;
  std::vector<std::pair<std::uint64_t, TakeClaim>> asked(
      std::make_move_iterator(claims_asked_.begin()), std::make_move_iterator(rest));
  claims_asked_.erase(claims_asked_.begin(), rest);
  std::vector<std::uint64_t> jobs;
  for (const auto& [job, call] : asked) jobs.push_back(job);
  claims_.Ask([squeue = options_.squeue, jobs] { return Squeue(squeue, jobs, kClaimLimit); },
              [this, asked = std::move(asked)](const Result<std::string>& said) {
                if (!said) base::LogWarn("jobs_not_asked", {{"why", said.error().message}});
                for (const auto& [job, call] : asked) {
                  const auto seen = slurm::FindJob(said.value_or(""), job);
                  const bool counted = seen && *seen && (*seen)->carma_gib > 0;
                  call(counted ? std::optional((*seen)->carma_gib) : std::nullopt);
                }
                AskClaims();
              });
}

void SlurmDesk::TellWaiting(std::string node,
                            std::function<std::vector<slurm::WaitingJob>()> waiting) {
  wait_comments_.emplace(std::move(node), options_.wait_quiet);
  waiting_jobs_ = std::move(waiting);
  LookAtWaiting();
}

void SlurmDesk::LookAtWaiting() {
  const auto again = [this] {
    waits_again_.Set(options_.waits_every, [this] { LookAtWaiting(); });
  };
  const auto next = wait_comments_->Next(std::chrono::steady_clock::now(), waiting_jobs_());
  if (!next) return again();
  comments_.Ask(
      [options = options_, comment = *next]() -> Result<std::string> {
        const auto job = AskForJob(options.squeue, comment.job, options.limit);
        if (!job) return std::unexpected(job.error());
        const bool may =
            *job && ((*job)->admin_comment.empty() || slurm::IsOfWaits((*job)->admin_comment));
        if (!may) return "";
        return RunOfSlurm(
            {options.scontrol, "update", "JobId=" + (*job)->name, "AdminComment=" + comment.text},
            options.limit);
      },
      [again](const Result<std::string>& told) {
        if (!told) base::LogWarn("wait_not_told", {{"why", told.error().message}});
        again();
      });
}

void SlurmDesk::LookAgain(core::TaskId task, std::chrono::milliseconds wait) {
  const auto found = returns_.find(task);
  if (found != returns_.end()) found->second.again->Set(wait, [this, task] { Look(task); });
}

void SlurmDesk::Look(core::TaskId task) {
  const auto found = returns_.find(task);
  if (found == returns_.end()) return;
  worker_.Ask([squeue = options_.squeue, job = found->second.back.job,
               limit = options_.limit] { return AskForJob(squeue, job, limit); },
              [this, task](const Result<std::optional<slurm::Job>>& seen) {
                if (seen) return Decide(task, *seen);
                base::LogWarn("slurm_not_asked", {{"task", task}, {"why", seen.error().message}});
                LookAgain(task, options_.after_failure);
              });
}

void SlurmDesk::Decide(core::TaskId task, const std::optional<slurm::Job>& job) {
  const auto found = returns_.find(task);
  if (found == returns_.end()) return;
  slurm::JobReturn& back = found->second.back;
  if (job) back = slurm::Begun(back, *job);
  const slurm::NextStep next = slurm::Next(back, job);
  if (next.step != slurm::ReturnStep::kRequeue) found->second.sent = true;
  switch (next.what) {
    case slurm::NextStep::What::kWait:
      return LookAgain(task, options_.look_again);
    case slurm::NextStep::What::kRun:
      return Do(task, next);
    case slurm::NextStep::What::kDone:
      return Leave(task, fmt::format("job {} is in Slurm's queue again", back.job));
    case slurm::NextStep::What::kGiveUp:
      return Leave(task, fmt::format("job {} is not started again: {}", back.job, next.why));
  }
}

void SlurmDesk::Do(core::TaskId task, const slurm::NextStep& next) {
  slurm::JobReturn& back = returns_.at(task).back;
  const bool known = back.step == next.step && back.refusals == 0;
  back.step = next.step;
  const auto run = [this, task, next](const Result<Unit>& kept) {
    if (!kept) return LookAgain(task, options_.after_failure);
    std::vector<std::string> words{options_.scontrol};
    words.insert(words.end(), next.words.begin(), next.words.end());
    base::LogInfo("slurm_asked", {{"task", task}, {"words", base::Join(next.words, " ")}});
    worker_.Ask([words, limit = options_.limit] { return RunOfSlurm(words, limit); },
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

void SlurmDesk::Leave(core::TaskId task, const std::string& told) {
  keep_({task, std::nullopt}, told, [this, task, told](const Result<Unit>& kept) {
    if (!kept) return LookAgain(task, options_.after_failure);
    base::LogInfo("job_return_done", {{"task", task}, {"what", told}});
    returns_.erase(task);
  });
}

}  // namespace carma::daemon
