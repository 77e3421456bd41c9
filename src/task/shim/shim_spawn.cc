#include "task/shim/shim_spawn.h"

#include <utility>

#include "base/spawn.h"
#include "base/try.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {

Result<SpawnedShim> SpawnShim(const std::string& shim_path, const std::string& attempt_dir) {
  base::Pipe answers = CARMA_TRY(base::MakePipe(false));
  static_assert(kEarlyAnswerFd == 3);  // position of the pipe's end in the list
  auto spawned = base::Spawn(
      {shim_path, attempt_dir},
      {.files = {"/dev/null", "/dev/null", attempt_dir + "/" + kShimLogFile, answers.write.get()},
       .environment = std::vector<std::string>{"PATH=/usr/local/bin:/usr/bin:/bin"},
       .session = true,
       // A stop signal that arrives before the shim listens must remain pending instead of killing
       // it.
       .block_signals = true});
  if (!spawned) return FailErrno(spawned.error(), "cannot start " + shim_path);
  SpawnedShim shim;
  shim.process.pid = spawned->pid;
  shim.process_fd = std::move(spawned->process);
  shim.answers = std::move(answers.read);
  if (const auto stat = base::ReadProcessStat(spawned->pid)) shim.process = stat->id;
  return shim;
}

}  // namespace carma::task
