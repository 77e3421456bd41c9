// Finds the MPS control daemon that serves a folder, reads its logs, and removes the files that it
// leaves behind. The folders belong to users, who may put anything into them, and carmad may be
// root. So below mps_dir, carmad follows no links, never blocks on a read, and reads or truncates
// only files owned by the server's user.
//
// The contents of the files were observed with NVIDIA's programs (docs/server/collocation.md, "What
// NVIDIA's programs do"). A daemon is identified only by its lock, which daemons of all branches
// take before they listen and hold until they exit. The kernel reports the holder and releases the
// lock no matter how the daemon exits. Two alternatives are less reliable. The pid file exists only
// in branch 550 and newer, and outlives a killed daemon. Connecting to the daemon's socket fails
// while the daemon is busy, and the daemon logs each attempt.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "task/mps/mps.h"

namespace carma::task {

// The process that holds this pipe directory's lock. Never blocks.
std::optional<pid_t> MpsLockHolder(const std::string& pipe_dir);

// Returns true if a control daemon uses protocol 3 (branch 615 and newer), according to its
// environment or, failing that, its options.
bool MpsSpeaksThree(pid_t daemon);

// The GPUs that a control daemon shows to its clients: its CUDA_VISIBLE_DEVICES, which cannot
// change while it runs. Empty if unknown.
std::string MpsVisibleGpus(pid_t daemon);

// Returns true if a control daemon was started with static SM partitions, according to its options.
// This cannot change while it runs.
bool MpsDividesSms(pid_t daemon);

// Lengths of the two logs at some point, used to read what is added later.
struct MpsLogMark {
  std::int64_t control = 0;
  std::int64_t server = 0;
};

class MpsLogs {
 public:
  MpsLogs(std::string dir, MpsServerId id) : dir_(std::move(dir)), id_(std::move(id)) {}

  MpsLogMark Mark() const;
  // The last 64 KiB added since the mark; empty if nothing was added or there is no such file.
  std::string ControlSince(const MpsLogMark& mark) const;
  std::string ServerSince(const MpsLogMark& mark) const;
  // Empties a log that exceeds 8 MiB. Daemons write several lines per command, and the folder is
  // often in memory (/run).
  void Bound() const;

 private:
  std::string dir_;
  MpsServerId id_;
};

// Removes the pipe directory of a server whose daemon has exited, and the daemon's files in it, but
// keeps the logs. Keeps the directory if it contains other files.
void RemoveMpsPipeDir(const std::string& dir, const MpsServerId& id);

}  // namespace carma::task
