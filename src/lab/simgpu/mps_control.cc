// The program carma-simmps, which starts the control daemon or sends commands to it.
#include "lab/simgpu/mps_control.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <iostream>
#include <vector>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "lab/simgpu/mps_control_daemon.h"

namespace carma::simgpu {
namespace {

constexpr const char* kNoDaemon = "Cannot find MPS control daemon process";

// Prints one line on stderr and returns exit code 1.
int FailWith(const std::string& text) {
  std::fputs((text + "\n").c_str(), stderr);
  return 1;
}

// Takes the lock that is held while the daemon runs. The kernel releases it even if the daemon is
// killed, and children do not inherit it.
Result<base::UniqueFd> TakeLock(const MpsFolders& folders) {
  const std::string path = folders.Lock();
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd) return FailErrno(errno, path);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_SETLK, &lock) == 0) return fd;
  return Conflict("An instance of this daemon is already running");
}

// Runs the daemon in this process; calls `ready` once the daemon responds.
int RunDaemon(const MpsFolders& folders, const MpsDaemonOptions& options,
              const std::function<void()>& ready) {
  ::prctl(PR_SET_NAME, "nvidia-cuda-mps-control");
  Result<base::UniqueFd> lock = TakeLock(folders);
  if (!lock) return FailWith(lock.error().message);
  ControlDaemon control(folders, std::move(*lock), options);
  if (const Result<Unit> opened = control.Open(); !opened) return FailWith(opened.error().message);
  ready();
  return control.Run();
}

int RunInBackground(const MpsFolders& folders, const MpsDaemonOptions& options) {
  Result<base::Pipe> pipe = base::MakePipe();
  if (!pipe) return FailWith("pipe failed");
  const pid_t child = ::fork();
  if (child < 0) return FailWith("fork failed");
  if (child == 0) {
    ::setsid();
    CloseAllBut(pipe->write.get(), pipe->write.get());
    if (::chdir("/") != 0) ::_exit(1);
    ::_exit(RunDaemon(folders, options, [&] {
      const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
      for (const int fd : {0, 1, 2}) ::dup2(null.get(), fd);
      (void)!::write(pipe->write.get(), "!", 1);
      pipe->write.reset();
    }));
  }
  pipe->write.reset();
  return base::ReadAll(pipe->read.get(), 1).value_or("").empty() ? 1 : 0;
}

}  // namespace

int StartMpsDaemon(const MpsFolders& folders, bool foreground, const MpsDaemonOptions& options) {
  if (options.multi_user && ::geteuid() != 0)
    return FailWith("Only root user may enable -multiuser-server!");
  if (MpsBehaves(folders, "refuse-start")) return FailWith("Failed to start the control daemon");
  while (MpsBehaves(folders, "hang-start")) ::pause();
  for (const std::string& folder : {folders.pipes, folders.logs}) {
    const Result<Unit> made = base::MakeDirs(folder);
    if (!made) return FailWith(made.error().message);
  }
  return foreground ? RunDaemon(folders, options, [] {}) : RunInBackground(folders, options);
}

bool MpsBehaves(const MpsFolders& folders, std::string_view word) {
  std::string words = base::GetEnv(kMpsBehaviourVariable) + " ";
  words += base::ReadFile(folders.BehaviourFile(), kMaxMpsLine).value_or("");
  std::ranges::replace_if(
      words, [](char c) { return c == ',' || c == '\n'; }, ' ');
  const std::vector<std::string_view> pieces = base::SplitWords(words);
  return std::ranges::find(pieces, word) != pieces.end();
}

int RunMpsCommand(const MpsFolders& folders, const std::string& command) {
  if (command.size() > kMaxMpsLine - 16) return FailWith("the command is too long");
  Result<base::LineSocket> daemon = ConnectTo(folders.Privileged());
  if (!daemon || !daemon->Send("command " + command)) return FailWith(kNoDaemon);
  while (true) {
    const Result<std::string> line = daemon->Receive(kForEver);
    std::fflush(stdout);
    if (!line) return FailWith(kNoDaemon);
    if (*line == kMpsAnswerEnd) return 0;
    if (*line == kMpsFailed) return 1;
    std::puts(line->c_str());
  }
}

int RunMpsCommands(const MpsFolders& folders) {
  int code = 0;
  for (std::string line; code == 0 && std::getline(std::cin, line);) {
    const std::string command(base::Trim(line));
    if (!command.empty()) code = RunMpsCommand(folders, command);
  }
  return code;
}

}  // namespace carma::simgpu
