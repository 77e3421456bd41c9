#include "daemon/slurm/slurm_programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

constexpr std::size_t kMostWords = 1'000;  // of the output of a program that fails
constexpr const char* kUnknownJob = "Invalid job id specified";

std::string Said(int fd, std::size_t most) {
  std::string said(most, '\0');
  const ssize_t read = ::pread(fd, said.data(), said.size(), 0);
  said.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  return said;
}

// Its exit status from waitpid(); empty: it took too long and was killed.
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

}  // namespace

Result<std::string> RunOfSlurm(const std::vector<std::string>& words,
                               std::chrono::milliseconds limit) {
  const auto failed = [&](const std::string& why) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", words.front(), why));
  };
  const Result<base::UniqueFd> input = base::MemoryFile("");
  const Result<base::UniqueFd> output = base::MemoryFile("");
  const Result<base::UniqueFd> errors = base::MemoryFile("");
  if (!input || !output || !errors) return failed("no memory or file descriptor is free");
  const auto child =
      base::Spawn(words, {.files = {input->get(), output->get(), errors->get()}, .folder = "/"});
  if (!child) return failed(std::strerror(child.error()));
  const std::optional<int> status = StatusWithin(*child, limit);
  if (!status) return failed(fmt::format("no answer within {} s", limit.count() / 1000));
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0)
    return Said(output->get(), slurm::kMostOfSqueue + 1);
  std::string why = Said(errors->get(), kMostWords);
  if (base::Trim(why).empty()) why = Said(output->get(), kMostWords);  // scontrol prints it there
  return failed(base::Printable(base::Trim(why), 300));
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
  // For a single unknown job squeue reports an error; among several it ignores unknown ones.
  if (!text && text.error().message.find(kUnknownJob) != std::string::npos) return "";
  return text;
}

Result<std::optional<slurm::Job>> SlurmPrograms::Find(std::uint64_t job) const {
  const Result<std::string> text = LinesOf({job});
  if (!text) return std::unexpected(text.error());
  return slurm::FindJob(*text, job);
}

Result<std::optional<slurm::Job>> SlurmPrograms::FindWithExcluded(std::uint64_t job) const {
  Result<std::optional<slurm::Job>> found = Find(job);
  if (!found || !*found) return found;
  const Result<std::string> text =
      RunOfSlurm({squeue, "--noheader", "--all", "--array", "--states=all",
                  fmt::format("--jobs={}", job), "--format=%A|%x|"},
                 limit);
  if (!text) return std::unexpected(text.error());
  (*found)->excluded = slurm::ExcludedNodes(*text, job);
  if (!(*found)->excluded)
    return Fail(ErrorCode::kUnavailable, fmt::format("squeue does not show job {}", job));
  return found;
}

Result<std::vector<slurm::Node>> SlurmPrograms::Nodes() const {
  const Result<std::string> text = Control({"--details", "--oneliner", "show", "node"});
  if (!text) return std::unexpected(text.error());
  return slurm::ReadNodes(*text);
}

}  // namespace carma::daemon
