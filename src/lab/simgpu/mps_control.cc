// The program carma-simmps, which starts the control daemon or sends commands to it.
#include "lab/simgpu/mps_control.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "lab/simgpu/mps_control_daemon.h"

namespace carma::simgpu {
namespace {

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
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return FailWith("pipe failed");
  const base::UniqueFd read_end(ends[0]);
  base::UniqueFd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return FailWith("fork failed");
  if (child == 0) {
    ::setsid();
    CloseAllBut(write_end.get(), write_end.get());
    if (::chdir("/") != 0) ::_exit(1);
    ::_exit(RunDaemon(folders, options, [&] {
      const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
      for (const int fd : {0, 1, 2}) ::dup2(null.get(), fd);
      (void)!::write(write_end.get(), "!", 1);
      write_end.reset();
    }));
  }
  write_end.reset();
  char byte = 0;
  ssize_t got = 0;
  do {
    got = ::read(read_end.get(), &byte, 1);
  } while (got < 0 && errno == EINTR);
  return got == 1 ? 0 : 1;
}

}  // namespace

int FailWith(const std::string& text) {
  std::fputs((text + "\n").c_str(), stderr);
  return 1;
}

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

namespace {

constexpr const char* kNoDaemon = "Cannot find MPS control daemon process";
constexpr auto kUntilAnswered = std::chrono::hours(24 * 365);

int PrintAnswer(base::LineSocket& daemon) {
  while (true) {
    const Result<std::string> line = daemon.Receive(kUntilAnswered);
    std::fflush(stdout);
    if (!line) return FailWith(kNoDaemon);
    if (*line == kMpsAnswerEnd) return 0;
    if (*line == kMpsFailed) return 1;
    std::puts(line->c_str());
  }
}

std::string BehaviourWords(const MpsFolders& folders) {
  std::string words = base::GetEnv(kMpsBehaviourVariable) + " ";
  words += base::ReadFile(folders.BehaviourFile(), kMaxMpsLine).value_or("");
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == ',' || c == '\n'; }, ' ');
  return words;
}

}  // namespace

bool MpsBehaves(const MpsFolders& folders, std::string_view word) {
  const std::string words = BehaviourWords(folders);
  const std::vector<std::string_view> pieces = base::SplitWords(words);
  return std::ranges::find(pieces, word) != pieces.end();
}

int RunMpsCommand(const MpsFolders& folders, const std::string& command) {
  if (command.size() > kMaxMpsLine - 16) return FailWith("the command is too long");
  Result<base::LineSocket> daemon = ConnectTo(folders.Privileged());
  if (!daemon || !daemon->Send("command " + command)) return FailWith(kNoDaemon);
  return PrintAnswer(*daemon);
}

int RunMpsCommands(const MpsFolders& folders) {
  char* line = nullptr;
  std::size_t room = 0;
  int code = 0;
  while (code == 0 && ::getline(&line, &room, stdin) > 0) {
    const std::string command(base::Trim(line));
    if (!command.empty()) code = RunMpsCommand(folders, command);
  }
  std::free(line);
  return code;
}

}  // namespace carma::simgpu
