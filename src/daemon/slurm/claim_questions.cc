#include "daemon/slurm/claim_questions.h"

#include <algorithm>
#include <iterator>

#include "base/log.h"

namespace carma::daemon {
namespace {

constexpr std::chrono::milliseconds kLimit{2'000};  // a step cannot start until the answer arrives
constexpr std::size_t kMostAtOnce = 500;

Result<std::optional<std::int64_t>> ClaimIn(const Result<std::string>& said, std::uint64_t job) {
  const auto seen = said ? slurm::FindJob(*said, job) : std::unexpected(said.error());
  if (!seen)
    return Unavailable("cannot read the claim of job {} from Slurm: {}", job, seen.error().message);
  if (!*seen || (*seen)->carma_gib == 0) return std::nullopt;
  return (*seen)->carma_gib;
}

}  // namespace

ClaimQuestions::ClaimQuestions(std::shared_ptr<boost::asio::io_context> loop,
                               SlurmPrograms programs)
    : programs_(std::move(programs)), worker_(std::move(loop), BackgroundWorker::AtEnd::kLeave) {
  programs_.limit = kLimit;
}

void ClaimQuestions::Ask(std::uint64_t job, Take call) {
  asked_.emplace_back(job, std::move(call));
  if (!asking_) AskNext();
}

void ClaimQuestions::AskNext() {
  asking_ = !asked_.empty();
  if (!asking_) return;
  const auto rest =
      asked_.begin() + static_cast<std::ptrdiff_t>(std::min(asked_.size(), kMostAtOnce));
  std::vector<std::pair<std::uint64_t, Take>> now(std::make_move_iterator(asked_.begin()),
                                                  std::make_move_iterator(rest));
  asked_.erase(asked_.begin(), rest);
  std::vector<std::uint64_t> jobs;
  for (const auto& [job, call] : now) jobs.push_back(job);
  worker_.Ask([programs = programs_, jobs] { return programs.LinesOf(jobs); },
              [this, now = std::move(now)](const Result<std::string>& said) {
                if (!said) base::LogWarn("jobs_not_asked", {{"why", said.error().message}});
                for (const auto& [job, call] : now) call(ClaimIn(said, job));
                AskNext();
              });
}

}  // namespace carma::daemon
