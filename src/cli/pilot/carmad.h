// The daemon of a pilot: a child of this process, which ends with it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/pilot/allocation.h"
#include "cli/pilot/books.h"
#include "config/settings.h"

namespace carma::cli {

// What is the pilot's own, whatever the site's configuration says of the whole server.
struct PilotPlace {
  std::string folder;  // private, for sockets
  std::string socket;
  std::string mps_dir;
};
// In the first of the bases where there is room for such names (a socket's has at most 107 bytes);
// makes the folder. Errors: config::CheckPrivate's, and kUnavailable where no base will do.
base::Result<PilotPlace> MakePlace(const config::Environment& environment, const std::string& job,
                                   const std::string& name);

// Variables of the daemon (CARMA_SECTION_KEY) with the allocation's share of the machine; notice:
// so long before the end tasks are asked to save. What the environment says stays, and beside GPUs,
// cores and memory what somebody has configured. machine_cpus: what this process may run on.
std::map<std::string, std::string> DaemonVariables(const Allocation& allocation,
                                                   const PilotPlace& place,
                                                   const config::Loaded& configured,
                                                   base::Duration notice, int machine_cpus);

class Carmad {
 public:
  // Errors: the system's.
  base::Result<base::Unit> Start(const PilotPlace& place, const PilotBooks& books,
                                 const std::map<std::string, std::string>& variables);
  bool alive() const { return pid_ > 0; }
  // A child has been reaped: ours? Then it is alive no more.
  void Reaped(pid_t pid, int status);
  // How it ended: "exit code 2", "signal 9".
  const std::string& end() const { return end_; }
  void Signal(int number) const;

 private:
  pid_t pid_ = 0;
  std::string end_;
};

}  // namespace carma::cli
