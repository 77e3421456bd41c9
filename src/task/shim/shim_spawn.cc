#include "task/shim/shim_spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>

#include "task/process/pidfd.h"
#include "task/shim/shim_protocol.h"

namespace carma::task {
namespace {

using base::Result;
using base::UniqueFd;

// Owns the two attribute objects of posix_spawn, which must be destroyed.
class SpawnPlan {
 public:
  SpawnPlan(int answer_end, const std::string& log) {
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_init(&files_);
    sigset_t all;
    ::sigfillset(&all);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    // A stop that comes before the shim listens must wait, not kill it.
    ::posix_spawnattr_setsigmask(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    // The pipe first: its number may be one of those that the others take.
    ::posix_spawn_file_actions_adddup2(&files_, answer_end, kEarlyAnswerFd);
    ::posix_spawn_file_actions_addopen(&files_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files_, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&files_, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_addclosefrom_np(&files_, kEarlyAnswerFd + 1);
  }
  ~SpawnPlan() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&files_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  const posix_spawnattr_t* attributes() const { return &attributes_; }
  const posix_spawn_file_actions_t* files() const { return &files_; }

 private:
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t files_;
};

}  // namespace

Result<SpawnedShim> SpawnShim(const std::string& shim_path, const std::string& attempt_dir) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return base::FailErrno(errno, "pipe");
  SpawnedShim shim;
  shim.answers = UniqueFd(ends[0]);
  const UniqueFd shim_end(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const SpawnPlan plan(shim_end.get(), attempt_dir + "/" + kShimLogFile);
  char* const argv[] = {const_cast<char*>(shim_path.c_str()),
                        const_cast<char*>(attempt_dir.c_str()), nullptr};
  char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
  char* const block[] = {path, nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, shim_path.c_str(), plan.files(), plan.attributes(), argv, block);
  if (error != 0) return base::FailErrno(error, "cannot start " + shim_path);
  // Our child, not yet reaped: the number is still its own.
  shim.process_fd = OpenPidfd(pid);
  shim.process.pid = pid;
  if (const auto stat = base::ReadProcessStat(pid)) shim.process = stat->id;
  return shim;
}

}  // namespace carma::task
