// The files of MPS control daemons: who serves a folder, what the logs tell, what is left at the
// end. The folders are a user's, who may put anything into them, and carmad may be root: no link is
// followed below mps_dir, nothing is waited for, and only that user's files are read or cut.
//
// What the files are was seen of NVIDIA's programs (docs/server/collocation.md, "What NVIDIA's
// programs do"). A daemon is known by its lock, and by nothing else: all branches hold it from
// before they listen to their end, the kernel names the holder, and it lets go of the lock however
// the daemon ends. The pid file exists from branch 550 on only and outlives a killed daemon; a
// connection to its socket would name the process too, but fails while it is busy, and is logged
// each time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "task/mps/mps.h"

namespace carma::task {

// The process that holds the lock of this pipe directory. Never blocks.
std::optional<pid_t> MpsLockHolder(const std::string& pipe_dir);

// How long the two logs were at a moment, to read later what has been added.
struct MpsLogMark {
  std::int64_t control = 0;
  std::int64_t server = 0;
};

class MpsLogs {
 public:
  MpsLogs(std::string dir, MpsServerId id) : dir_(std::move(dir)), id_(std::move(id)) {}

  MpsLogMark Mark() const;
  // What was added since then, the last 64 KiB of it; empty if there is nothing or no such file.
  std::string ControlSince(const MpsLogMark& mark) const;
  std::string ServerSince(const MpsLogMark& mark) const;
  // Empties a log beyond 8 MiB: daemons write several lines for each question that they are asked,
  // and the folder is often in memory (/run).
  void Bound() const;

 private:
  std::string dir_;
  MpsServerId id_;
};

// Removes the pipe directory of a server whose daemon has ended, with the files that it leaves;
// not the logs. Whatever else lies in it stays, and the folder with it.
void RemoveMpsPipeDir(const std::string& dir, const MpsServerId& id);

}  // namespace carma::task
