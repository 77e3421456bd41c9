// Starts a program from a process with many threads, without copying its memory (posix_spawn).
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

// Close-on-exec, and neither end is 0, 1 or 2.
struct Pipe {
  UniqueFd read, write;
};
// blocking_read: false lets a read of an empty pipe fail with EAGAIN. Errors: the system's.
Result<Pipe> MakePipe(bool blocking_read = true);

// An anonymous file, positioned at its beginning: for the input of a program, which then cannot
// block us by not reading, or for its output. Its descriptor is above those of a program
// (SpawnOptions::files). Errors: kUnavailable: no memory, no descriptor.
Result<UniqueFd> MemoryFile(std::string_view text);

struct SpawnOptions {
  // Its descriptors 0, 1, 2 …: each is one of ours, or a file. Descriptor 0 reads its file, the
  // others append to theirs, made with mode 0600. One of ours must not have the number of an
  // earlier position. The program gets no other descriptors.
  std::vector<std::variant<int, std::string>> files;
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value" each; absent: ours
  std::string folder = {};                                   // its working folder; empty: ours
  bool session = false;        // new session; else a new process group
  bool block_signals = false;  // block all signals; else none
};

struct Spawned {
  pid_t pid = 0;     // to be reaped by the caller
  UniqueFd process;  // pidfd; empty if not available
};

// The array that exec expects; valid as long as the words are.
std::vector<char*> Argv(const std::vector<std::string>& words);

// Runs words[0], searched in $PATH unless it contains a slash, with default actions for all
// signals. Errors: errno; then no program runs.
std::expected<Spawned, int> Spawn(const std::vector<std::string>& words,
                                  const SpawnOptions& options);

}  // namespace carma::base
