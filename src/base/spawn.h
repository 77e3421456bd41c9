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

// Creates an anonymous file with this text, positioned at its beginning, for use as a program's
// input or output. Unlike a pipe, it cannot block us if the program does not read its input. The
// descriptor's number is higher than any index in SpawnOptions::files. Returns kUnavailable if no
// memory or descriptors are left.
Result<UniqueFd> MemoryFile(std::string_view text);

struct SpawnOptions {
  // The program's descriptors 0, 1, 2 …; it gets no others. Each entry is one of our descriptors or
  // a path. The path for descriptor 0 is opened for reading. Other paths are opened for appending,
  // and created with mode 0600 if missing. Our descriptor must not be lower than its index in
  // `files`, because entries replace descriptors in ascending order.
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
