#include "task/process/group_limiter.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxAnswer = 4096;
constexpr std::size_t kWordsOfALimit = 3;

}  // namespace

std::vector<std::string> LimitWords(const std::vector<GpuMemoryLimit>& limits) {
  std::vector<std::string> words;
  for (const GpuMemoryLimit& limit : limits) {
    words.push_back(limit.uuid);
    words.push_back(std::to_string(limit.soft_mib));
    words.push_back(std::to_string(limit.hard_mib));
  }
  return words;
}

std::vector<std::string> HardLimitWords(const std::vector<std::string>& words) {
  std::vector<std::string> hard = words;
  for (std::size_t i = 1; i < hard.size(); i += kWordsOfALimit) hard[i] = "0";
  return hard;
}

std::vector<std::string> NoLimitWords(const std::vector<std::string>& words) {
  std::vector<GpuMemoryLimit> none;
  for (std::size_t i = 0; i + kWordsOfALimit <= words.size(); i += kWordsOfALimit)
    none.push_back({words[i], 0, 0});
  return LimitWords(none);
}

base::Result<base::Unit> LimitGpuMemory(const std::vector<std::string>& limiter,
                                        const std::string& group,
                                        const std::vector<std::string>& words,
                                        std::chrono::milliseconds patience) {
  std::vector<std::string> argv = limiter;
  argv.push_back(group);
  argv.insert(argv.end(), words.begin(), words.end());
  base::Result<base::UniqueFd> answer = base::MemoryFile("");
  if (!answer) return std::unexpected(answer.error());
  base::SpawnOptions options;
  options.files = {"/dev/null", "/dev/null", answer->get()};
  const auto program = base::Spawn(argv, options);
  if (!program)
    return Fail(ErrorCode::kUnavailable, argv[0] + ": " + std::strerror(program.error()));
  pollfd ended{program->process.get(), POLLIN, 0};
  const bool late = ::poll(&ended, 1, static_cast<int>(patience.count())) <= 0;
  if (late) ::kill(program->pid, SIGKILL);
  int status = 0;
  // A program that hangs in the driver cannot be waited for.
  if (::waitpid(program->pid, &status, late ? WNOHANG : 0) != program->pid || late)
    return Fail(ErrorCode::kUnavailable, "the driver does not answer");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return base::Unit{};
  (void)::lseek(answer->get(), 0, SEEK_SET);
  const std::string text = base::ReadAll(answer->get(), kMaxAnswer).value_or("");
  return Fail(ErrorCode::kUnavailable,
              text.empty() ? "the limiter failed" : std::string(base::Trim(text)));
}

}  // namespace carma::task
