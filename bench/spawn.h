// Starts programs without a shell, for benchmarks that time them.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace carma::bench {

using Command = std::vector<std::string>;

// Starts a program found on PATH. Its standard input and output are /dev/null, and its standard
// error is shown. Exits with a message if the start fails.
inline pid_t Spawn(const Command& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (error == 0) return pid;
  std::fprintf(stderr, "cannot start %s: %s\n", argv[0], std::strerror(error));
  std::exit(1);
}

// Waits for `pid`, and exits this program unless `pid` exits with code 0.
inline void AwaitSuccess(pid_t pid, const Command& command) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::fprintf(stderr, "%s exited with wait status %#x\n", command[0].c_str(), status);
  std::exit(1);
}

}  // namespace carma::bench
