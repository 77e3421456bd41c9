#include "daemon/loop/own_process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <iterator>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace carma::daemon {
namespace {

constexpr std::size_t kMaxStatBytes = 4096;

// Positions of fields after the program name, which may contain spaces. Field 0 is "state" in
// proc(5).
constexpr std::size_t kUserTicks = 11;
constexpr std::size_t kSystemTicks = 12;
constexpr std::size_t kThreads = 17;
constexpr std::size_t kStarted = 19;
constexpr std::size_t kVirtual = 20;
constexpr std::size_t kResident = 21;

// When the machine booted, in seconds since the epoch, computed from its uptime.
double BootTime() {
  timespec now{};
  timespec up{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  return static_cast<double>(now.tv_sec - up.tv_sec) +
         static_cast<double>(now.tv_nsec - up.tv_nsec) / 1e9;
}

std::optional<std::int64_t> OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  if (error) return std::nullopt;
  return std::distance(begin(all), end(all)) - 1;  // minus the descriptor used for this listing
}

}  // namespace

std::optional<OwnProcess> ReadStat(std::string_view text, double ticks_per_s,
                                   std::int64_t page_bytes) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::vector<std::int64_t> fields;
  for (const std::string_view word : base::SplitWords(base::Trim(text.substr(name_end + 1)))) {
    // The first field is a letter, and some of the last fields may overflow. Such fields become 0.
    fields.push_back(base::ParseInt(word).value_or(0));
  }
  if (fields.size() <= kResident) return std::nullopt;
  return OwnProcess{
      .cpu_s = static_cast<double>(fields[kUserTicks] + fields[kSystemTicks]) / ticks_per_s,
      .started_s = static_cast<double>(fields[kStarted]) / ticks_per_s,
      .virtual_bytes = fields[kVirtual],
      .resident_bytes = fields[kResident] * page_bytes,
      .threads = fields[kThreads]};
}

void WriteOwnProcess(api::MetricsText& out) {
  const Result<std::string> text = base::ReadFile("/proc/self/stat", kMaxStatBytes);
  const auto own =
      text ? ReadStat(*text, static_cast<double>(::sysconf(_SC_CLK_TCK)), ::sysconf(_SC_PAGESIZE))
           : std::nullopt;
  if (own) {
    out.One("process_cpu_seconds_total", "counter", "User and system CPU time used by carmad.",
            own->cpu_s);
    out.One("process_resident_memory_bytes", "gauge", "Resident memory used by carmad.",
            own->resident_bytes);
    out.One("process_virtual_memory_bytes", "gauge", "Virtual memory used by carmad.",
            own->virtual_bytes);
    out.One("process_threads", "gauge", "Number of carmad threads.", own->threads);
    out.One("process_start_time_seconds", "gauge",
            "Time at which carmad started, in seconds since the epoch.",
            BootTime() + own->started_s);
  }
  if (const std::optional<std::int64_t> open = OpenFiles()) {
    out.One("process_open_fds", "gauge", "File descriptors that carmad has open.", *open);
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    out.One("process_max_fds", "gauge",
            "Maximum number of file descriptors that carmad may have open.", limit.rlim_cur);
  }
}

}  // namespace carma::daemon
