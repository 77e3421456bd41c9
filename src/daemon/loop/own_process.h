// Writes metrics of this process, with the names that Prometheus clients usually use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/metrics.h"

namespace carma::daemon {

struct OwnProcess {
  double cpu_s = 0;                // user and system time
  double started_s = 0;            // start of the process, in seconds since the machine's start
  std::int64_t virtual_bytes = 0;  // virtual memory
  std::int64_t resident_bytes = 0;
  std::int64_t threads = 0;
};
// Parses the text of /proc/self/stat; empty if the text cannot be parsed.
std::optional<OwnProcess> ReadStat(std::string_view text, double ticks_per_s,
                                   std::int64_t page_bytes);

// Writes the metrics process_*, except those that the kernel does not report. Reads only a few
// short files of /proc.
void WriteOwnProcess(api::MetricsText& out);

}  // namespace carma::daemon
