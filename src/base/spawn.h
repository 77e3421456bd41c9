// Starting a program from a process of many threads, without copying its memory (posix_spawn).
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

// A file that nobody else has, to be read from its beginning: as the input of a program, which then
// holds up nobody when it does not read, or for what it says. Its number is no place among those of
// a program (SpawnOptions::files). Errors: kUnavailable: no memory, no descriptor.
Result<UniqueFd> MemoryFile(std::string_view text);

struct SpawnOptions {
  // Its descriptors 0, 1, 2 … in turn: one of ours whose number is no place before its own, or a
  // file, which 0 reads and the others append to, made with mode 0600. It gets no other of ours.
  std::vector<std::variant<int, std::string>> files;
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value" each; absent: ours
  std::string folder = {};                                   // where it starts; empty: where we are
  bool session = false;        // it leads a session of its own; else a process group
  bool block_signals = false;  // all of them, which then wait until it wants them; else none
};

struct Spawned {
  pid_t pid = 0;     // to be reaped by the caller
  UniqueFd process;  // pidfd; empty if none could be had
};

// Runs words[0], which is looked for in $PATH unless it holds a slash, with all signals' actions as
// they are by default. Errors: errno; no program runs then.
std::expected<Spawned, int> Spawn(const std::vector<std::string>& words,
                                  const SpawnOptions& options);

}  // namespace carma::base
