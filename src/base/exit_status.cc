#include "base/exit_status.h"

#include <sys/ioctl.h>

#include <cstdint>

namespace carma::base {
namespace {

// struct pidfd_info from <linux/pidfd.h>, which is missing from Debian 12's headers.
struct PidfdInfo {
  std::uint64_t mask = 0;
  std::uint64_t cgroup = 0;
  std::uint32_t numbers[11] = {};
  std::int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kInfoExit = 1U << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

}  // namespace

std::optional<int> ExitStatusOf(const ProcessId& process, const UniqueFd& pidfd) {
  const std::optional<ProcessStat> stat = ReadProcessStat(process.pid);
  if (stat && stat->id == process && stat->exit_status) return stat->exit_status;
  PidfdInfo info;
  info.mask = kInfoExit;
  if (!pidfd || ::ioctl(pidfd.get(), kGetInfo, &info) != 0 || (info.mask & kInfoExit) == 0)
    return std::nullopt;
  return info.exit_code;
}

}  // namespace carma::base
