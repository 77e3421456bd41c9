// The common clock of the processes of a simulated GPU server, in the head of its state file
// (simgpu/layout.h has the rest). It is all that the daemon needs of a simulated server.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace carma::base {

// Relates simulated to real time: SystemClock(time_scale, origin_time, origin_boot_ns).
struct ClockOrigin {
  double time_scale = 1;
  std::int64_t origin_time_ms = 0;
  std::int64_t origin_boot_ns = 0;  // CLOCK_BOOTTIME
};

struct ServerHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bytes;  // of the whole file: refuses builds with other tables
  // Mutexes of dead owners and the clock are invalid after a reboot.
  char boot_id[40];
  ClockOrigin clock;
};

// The head of a file of that size, of this version and this boot.
ServerHead MakeServerHead(std::uint32_t bytes, const ClockOrigin& clock);
// Errors: kCorrupt: another size, version or boot.
Result<Unit> CheckServerHead(const ServerHead& head, std::uint32_t bytes, const std::string& path);

// Errors: kNotFound: no such file; kCorrupt: not a state file, of another version, torn, or made
// before the last reboot; kDenied, kIo.
Result<ClockOrigin> ReadServerClock(const std::string& path);

}  // namespace carma::base
