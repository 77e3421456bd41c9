// The daemon of a pilot: a child of this process, which ends with it.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "cli/pilot/allocation.h"
#include "cli/pilot/books.h"
#include "config/settings.h"

namespace carma::cli {

// The pilot's own paths, whatever the site's configuration sets for the whole server.
struct PilotPlace {
  std::string folder;  // private, for sockets
  std::string socket;
  std::string mps_dir;
};
// Chooses the first base folder with short enough paths (a socket's may have 107 bytes) and creates
// the folder. Errors: those of config::CheckPrivate, and kUnavailable if no base is suitable.
Result<PilotPlace> MakePlace(const config::Environment& environment, const std::string& job,
                             const std::string& name);

// The daemon's variables (CARMA_SECTION_KEY) with the allocation's share of the machine; notice:
// how long before the end tasks are asked to checkpoint. Keeps variables that are set and, except
// for GPUs, cores and memory, configured values. machine_cpus: the cores of this process.
std::map<std::string, std::string> DaemonVariables(const Allocation& allocation,
                                                   const PilotPlace& place,
                                                   const config::Loaded& configured,
                                                   base::Duration notice, int machine_cpus);

class Carmad {
 public:
  // Errors: the system's.
  Result<Unit> Start(const PilotPlace& place, const PilotBooks& books,
                     const std::map<std::string, std::string>& variables);
  bool alive() const { return pid_ > 0; }
  // To be called when a child has been reaped; if it was the daemon, its end is noted.
  void Reaped(pid_t pid, int status);
  // How it ended: "exit code 2", "signal 9".
  const std::string& end() const { return end_; }
  void Signal(int number) const;

 private:
  pid_t pid_ = 0;
  std::string end_;
};

}  // namespace carma::cli
