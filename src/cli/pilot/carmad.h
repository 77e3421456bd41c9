// The daemon of a pilot: a child process that exits with the pilot.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "cli/pilot/allocation.h"
#include "cli/pilot/books.h"
#include "config/settings.h"

namespace carma::cli {

// The pilot's own paths, which replace those that the site configures for the whole server.
struct PilotPlace {
  std::string folder;  // private folder for sockets
  std::string socket;
  std::string mps_dir;
};
// Creates the pilot's folder in the first writable base folder with a path short enough for sockets
// (at most 107 bytes). Returns kUnavailable if no base folder is suitable. Propagates errors from
// config::CheckPrivate.
Result<PilotPlace> MakePlace(const config::Environment& environment, const std::string& job,
                             const std::string& name);

// Returns environment variables (CARMA_SECTION_KEY) that limit the daemon to the allocation's share
// of the machine. Omits those that the user has set. The others override the configuration files,
// except for the MPS folder and the restart limit, which are only defaults. notice: tasks are asked
// to checkpoint this long before the end. machine_cpus: OwnCpus().
std::map<std::string, std::string> DaemonVariables(const Allocation& allocation,
                                                   const PilotPlace& place,
                                                   const config::Loaded& configured,
                                                   base::Duration notice, int machine_cpus);

// The number of cores that this process may use.
int OwnCpus();

class Carmad {
 public:
  // Returns the system's error if the process cannot be started.
  Result<Unit> Start(const PilotPlace& place, const PilotBooks& books,
                     const std::map<std::string, std::string>& variables);
  bool alive() const { return pid_ > 0; }
  // Call this when a child has been reaped. If the child was the daemon, records how it exited.
  void Reaped(pid_t pid, int status);
  // How the daemon exited: "exit code 2", "signal 9".
  const std::string& end() const { return end_; }
  void Signal(int number) const;

 private:
  pid_t pid_ = 0;
  std::string end_;
};

}  // namespace carma::cli
