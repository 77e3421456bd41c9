// The clock shared by all processes of a simulated GPU server. It is at the beginning of the
// server's state file (lab/simgpu/state_file.h), and is all that the daemon reads from that file.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace carma::base {

// Relates simulated time to real time: SystemClock(time_scale, origin_time, origin_boot_ns).
struct ClockOrigin {
  double time_scale = 1;
  std::int64_t origin_time_ms = 0;
  std::int64_t origin_boot_ns = 0;  // CLOCK_BOOTTIME
};

struct ServerHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bytes;  // file size; a build with different tables rejects the file
  // The boot during which the file was created. After a reboot the file cannot be used: its clock
  // is wrong, and its mutexes may be held by processes that no longer exist.
  char boot_id[40];
  ClockOrigin clock;
};

// Builds the header for a file of `bytes` bytes, with the current version and boot ID.
ServerHead MakeServerHead(std::uint32_t bytes, const ClockOrigin& clock);
// Returns kCorrupt if the file's size, version or boot ID does not match.
Result<Unit> CheckServerHead(const ServerHead& head, std::uint32_t bytes, const std::string& path);

// Returns kNotFound if there is no such file; kCorrupt if it is incomplete, is not a state file,
// was written by a different version, or dates from before the last reboot; or kDenied or kIo.
Result<ClockOrigin> ReadServerClock(const std::string& path);

}  // namespace carma::base
