#include "base/program_output.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "base/spawn.h"

namespace carma::base {

std::string OutputOf(const std::vector<std::string>& words, std::size_t max_bytes,
                     std::chrono::milliseconds patience) {
  Result<UniqueFd> output = MemoryFile("");
  if (!output) return "";
  SpawnOptions options;
  options.files = {"/dev/null", output->get(), "/dev/null"};
  const auto program = Spawn(words, options);
  if (!program) return "";
  pollfd ended{program->process.get(), POLLIN, 0};
  if (::poll(&ended, 1, static_cast<int>(patience.count())) <= 0) ::kill(program->pid, SIGKILL);
  int status = 0;
  ::waitpid(program->pid, &status, 0);
  if (status != 0 || ::lseek(output->get(), 0, SEEK_SET) != 0) return "";
  return ReadAll(output->get(), max_bytes).value_or("");
}

}  // namespace carma::base
