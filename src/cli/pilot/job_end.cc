#include "cli/pilot/job_end.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "task/describe/option_values.h"

namespace carma::cli {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr std::size_t kMaxAnswer = 4096;

// Of a program that says little: its output once it has ended.
std::string OutputOf(const std::vector<std::string>& words) {
  base::Result<base::UniqueFd> output = base::MemoryFile("");
  if (!output) return "";
  base::SpawnOptions options;
  options.files = {"/dev/null", output->get(), "/dev/null"};
  const auto program = base::Spawn(words, options);
  if (!program) return "";
  pollfd ended{program->process.get(), POLLIN, 0};
  if (::poll(&ended, 1, kPatienceMs) <= 0) ::kill(program->pid, SIGKILL);
  int status = 0;
  ::waitpid(program->pid, &status, 0);
  if (status != 0 || ::lseek(output->get(), 0, SEEK_SET) != 0) return "";
  return base::ReadAll(output->get(), kMaxAnswer).value_or("");
}

}  // namespace

std::optional<base::Time> ParseJobEnd(std::string_view text) {
  const std::string_view word = base::Trim(text);
  // Other words for a time mean something else to us: "now".
  if (word.empty() || word[0] < '0' || word[0] > '9') return std::nullopt;
  const base::Result<base::Time> time = task::ParseBegin(word, base::Time{});
  return time ? std::optional(*time) : std::nullopt;
}

std::optional<base::Time> AskJobEnd(const std::string& job) {
  return ParseJobEnd(OutputOf({"squeue", "--noheader", "--jobs", job, "--format", "%e"}));
}

}  // namespace carma::cli
