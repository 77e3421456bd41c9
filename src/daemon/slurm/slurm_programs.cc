#include "daemon/slurm/slurm_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "base/try.h"
#include "task/process/bounded_run.h"

namespace carma::daemon {
namespace {

constexpr const char* kUnknownJob = "Invalid job id specified";

}  // namespace

Result<std::string> RunOfSlurm(const std::vector<std::string>& words,
                               std::chrono::milliseconds limit) {
  const auto failed = [&](const std::string& why) {
    return Unavailable("{}: {}", words.front(), why);
  };
  const Result<task::RunResult> ran =
      task::RunBounded({.words = words, .kept = slurm::kMostOfSqueue + 1, .limit = limit});
  if (!ran) return Unavailable(ran.error().message);
  if (ran->late) return failed(fmt::format("no response within {} s", limit.count() / 1000));
  if (ran->signal == 0 && ran->exit_code == 0) return ran->output;
  std::string_view why = base::Trim(ran->errors);
  if (why.empty()) why = base::Trim(ran->output);  // scontrol prints its errors to stdout
  return failed(base::Printable(why, 300));
}

Result<std::string> SlurmPrograms::Control(const std::vector<std::string>& words) const {
  std::vector<std::string> line{scontrol};
  line.insert(line.end(), words.begin(), words.end());
  return RunOfSlurm(line, limit);
}

Result<std::string> SlurmPrograms::LinesOf(const std::vector<std::uint64_t>& jobs) const {
  Result<std::string> text =
      RunOfSlurm({squeue, "--noheader", "--all", "--array", "--states=all",
                  fmt::format("--jobs={}", fmt::join(jobs, ",")), "-O", slurm::kJobColumns},
                 limit);
  // squeue reports an unknown job as an error only if no other job was requested. Otherwise it
  // ignores unknown jobs.
  if (!text && text.error().message.find(kUnknownJob) != std::string::npos) return "";
  return text;
}

Result<std::optional<slurm::Job>> SlurmPrograms::Find(std::uint64_t job) const {
  const std::string text = CARMA_TRY(LinesOf({job}));
  return slurm::FindJob(text, job);
}

Result<std::optional<slurm::Job>> SlurmPrograms::FindWithExcluded(std::uint64_t job) const {
  Result<std::optional<slurm::Job>> found = Find(job);
  if (!found || !*found) return found;
  const std::string text =
      CARMA_TRY(RunOfSlurm({squeue, "--noheader", "--all", "--array", "--states=all",
                            fmt::format("--jobs={}", job), "--format=%A|%x|"},
                           limit));
  (*found)->excluded = slurm::ExcludedNodes(text, job);
  if (!(*found)->excluded) return Unavailable("squeue does not show job {}", job);
  return found;
}

Result<std::vector<slurm::Node>> SlurmPrograms::Nodes() const {
  const std::string text = CARMA_TRY(Control({"--details", "--oneliner", "show", "node"}));
  return slurm::ReadNodes(text);
}

}  // namespace carma::daemon
