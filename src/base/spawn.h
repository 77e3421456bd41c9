// Starts programs from a process with many threads, without copying its memory (posix_spawn).
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

// Both ends are close-on-exec, and neither has the number 0, 1 or 2.
struct Pipe {
  UniqueFd read, write;
};
// With blocking_read = false, reading an empty pipe fails with EAGAIN. Errors: the system's.
Result<Pipe> MakePipe(bool blocking_read = true);

// Makes an anonymous file with this text, positioned at its beginning. A program can use it as its
// input (and cannot block us by not reading) or for its output. Its descriptor is above those of a
// program (SpawnOptions::files). Errors: kUnavailable: no memory, no descriptor.
Result<UniqueFd> MemoryFile(std::string_view text);

struct SpawnOptions {
  // The program's descriptors 0, 1, 2 …: each is a descriptor of ours, or a file. Descriptor 0
  // reads its file; the others append to theirs, which are made with mode 0600. A descriptor of
  // ours must not have the number of an earlier position. The program gets no other descriptors.
  std::vector<std::variant<int, std::string>> files;
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value" each; absent: ours
  std::string folder = {};                                   // working folder; empty: our own
  bool session = false;        // start a new session; otherwise only a new process group
  bool block_signals = false;  // block all signals; otherwise block none
};

struct Spawned {
  pid_t pid = 0;     // to be reaped by the caller
  UniqueFd process;  // pidfd; empty if not available
};

// Makes the array that exec expects. It is valid as long as the words are.
std::vector<char*> Argv(const std::vector<std::string>& words);

// Runs words[0] with default actions for all signals. The program is searched in $PATH unless its
// name contains a slash. Errors: errno; then no program runs.
std::expected<Spawned, int> Spawn(const std::vector<std::string>& words,
                                  const SpawnOptions& options);

}  // namespace carma::base
