// Writes this process's metrics under the names commonly used by Prometheus clients.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/metrics.h"

namespace carma::daemon {

struct OwnProcess {
  double cpu_s = 0;                // user and system time
  double started_s = 0;            // process start time, in seconds since boot
  std::int64_t virtual_bytes = 0;  // virtual memory
  std::int64_t resident_bytes = 0;
  std::int64_t threads = 0;
};
// Parses the text of /proc/self/stat; empty if the text cannot be parsed.
std::optional<OwnProcess> ReadStat(std::string_view text, double ticks_per_s,
                                   std::int64_t page_bytes);

// Writes the process_* metrics, except those that the kernel does not report. Reads only a few
// short files in /proc.
void WriteOwnProcess(api::MetricsText& out);

}  // namespace carma::daemon
