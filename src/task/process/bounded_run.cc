#include "task/process/bounded_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include "base/spawn.h"
#include "base/unique_fd.h"

namespace carma::task {
namespace {

// How long to wait for a killed program to exit.
constexpr int kAfterKillMs = 500;

// A program that writes more than this is killed, because no process is charged for the memory that
// holds its output.
constexpr std::int64_t kMaxOutputBytes = 64 << 20;
constexpr int kLookAtOutputMs = 200;

std::int64_t SizeOf(const base::UniqueFd& file) {
  struct stat facts {};
  return ::fstat(file.get(), &facts) == 0 ? facts.st_size : 0;
}

std::string Beginning(const base::UniqueFd& file, std::size_t most) {
  std::string text(std::min(most, static_cast<std::size_t>(SizeOf(file))), '\0');
  const ssize_t read = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  return text;
}

// Returns false if the program took too long or wrote too much.
bool EndsInTime(const base::UniqueFd& process, std::chrono::milliseconds limit,
                const base::UniqueFd& output, const base::UniqueFd& errors) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (SizeOf(output) + SizeOf(errors) < kMaxOutputBytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd end{process.get(), POLLIN, 0};
    const int patience_ms =
        static_cast<int>(std::min<std::int64_t>(left.count() + 1, kLookAtOutputMs));
    if (::poll(&end, 1, patience_ms) == 1) return true;
  }
  return false;
}

// Returns true once the killed program has exited.
bool EndsAfterKill(const base::UniqueFd& process) {
  pollfd end{process.get(), POLLIN, 0};
  return ::poll(&end, 1, kAfterKillMs) == 1;
}

// Reaps the killed programs that have exited since. fresh: a program to reap later, or 0.
void ReapSurvivors(pid_t fresh = 0) {
  // Never destroyed, because threads may run programs while carmad exits.
  static auto& mutex = *new std::mutex;
  static auto& survivors = *new std::vector<pid_t>;
  const std::lock_guard lock(mutex);
  if (fresh > 0) survivors.push_back(fresh);
  std::erase_if(survivors, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

}  // namespace

Result<RunResult> RunBounded(const RunRequest& request) {
  const Result<base::UniqueFd> input = base::MemoryFile(request.input),
                               more = base::MemoryFile(request.more_input),
                               output = base::MemoryFile(""), errors = base::MemoryFile("");
  for (const auto* file : {&input, &more, &output, &errors}) {
    if (!*file) return std::unexpected(file->error());
  }
  // The program gets its own process group, so that everything it starts is killed with it.
  base::SpawnOptions options{
      .files = {input->get(), output->get(), request.together ? output->get() : errors->get()},
      .environment = request.environment,
      .folder = request.folder,
      .session = request.session};
  if (!request.more_input.empty()) options.files.emplace_back(more->get());
  const auto child = base::Spawn(request.words, options);
  if (!child) {
    return Fail(child.error() == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                fmt::format("{}: {}", request.words.front(), std::strerror(child.error())));
  }
  RunResult result;
  result.late = !child->process || !EndsInTime(child->process, request.limit, *output, *errors);
  const bool killed = result.late;
  if (killed) ::kill(-child->pid, SIGKILL);
  result.flood = killed && SizeOf(*output) + SizeOf(*errors) >= kMaxOutputBytes;
  result.late = killed && !result.flood;
  const bool ended = !killed || EndsAfterKill(child->process);
  int status = SIGKILL;
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(child->pid, &status, ended ? 0 : WNOHANG);
  } while (reaped < 0 && errno == EINTR);
  ReapSurvivors(reaped == 0 ? child->pid : 0);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.output = Beginning(*output, request.kept);
  result.errors = Beginning(*errors, request.kept);
  return result;
}

}  // namespace carma::task
