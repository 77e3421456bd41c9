// Starts programs from a multithreaded process without copying its memory (posix_spawn).
#pragma once

#include <sys/types.h>

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::base {

// Both ends are close-on-exec. Neither is descriptor 0, 1 or 2.
struct Pipe {
  UniqueFd read, write;
};
// If blocking_read is false, reading an empty pipe fails with EAGAIN.
Result<Pipe> MakePipe(bool blocking_read = true);

// Creates an anonymous file that contains this text and is positioned at its beginning. A program
// can use the file as its input or output. Unlike a pipe, an input file cannot block us if the
// program does not read it. The descriptor's number is higher than any index in
// SpawnOptions::files. Returns kUnavailable if no memory or descriptors are left.
Result<UniqueFd> MemoryFile(std::string_view text);

struct SpawnOptions {
  // The program's descriptors 0, 1, 2 … Each entry is one of our descriptors or the path of a file.
  // The file for descriptor 0 is opened for reading. The other files are appended to, and are
  // created with mode 0600. One of our descriptors must not be lower than the entry's index,
  // because the program's own descriptors have already replaced the lower ones. The program gets no
  // other descriptors.
  std::vector<std::variant<int, std::string>> files;
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; default: our own
  std::string folder = {};                                   // working folder; default: our own
  bool session = false;        // start a new session; otherwise only a new process group
  bool block_signals = false;  // block all signals; otherwise block none
};

struct Spawned {
  pid_t pid = 0;     // the caller must reap it
  UniqueFd process;  // pidfd; empty if not available
};

// Builds the argument array that exec expects. It is valid as long as `words` is.
std::vector<char*> Argv(const std::vector<std::string>& words);

// Runs words[0] with default actions for all signals. The program is looked up in $PATH unless its
// name contains a slash. On failure, returns errno, and no program is running.
std::expected<Spawned, int> Spawn(const std::vector<std::string>& words,
                                  const SpawnOptions& options);

}  // namespace carma::base
