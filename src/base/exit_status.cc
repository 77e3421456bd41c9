#include "base/exit_status.h"

#include <sys/ioctl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"

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

// Field numbers of /proc/PID/stat (proc(5)): "state" is field 3, "starttime" 22, "exit_code" 52.
constexpr std::size_t kState = 3, kStart = 22, kExitCode = 52;

std::optional<int> StatusOfZombie(const ProcessId& process) {
  const Result<std::string> text = ReadFile("/proc/" + std::to_string(process.pid) + "/stat", 4096);
  const std::size_t close = text ? text->rfind(')') : std::string::npos;
  if (close == std::string::npos) return std::nullopt;
  const std::vector<std::string_view> words = SplitWords(std::string_view(*text).substr(close + 1));
  const auto field = [&](std::size_t number) { return words[number - kState]; };
  if (words.size() <= kExitCode - kState || field(kState) != "Z" ||
      ParseInt(field(kStart)) != static_cast<std::int64_t>(process.start_ticks))
    return std::nullopt;
  const std::optional<std::int64_t> code = ParseInt(field(kExitCode));
  return code ? std::optional(static_cast<int>(*code)) : std::nullopt;
}

}  // namespace

std::optional<int> ExitStatusOf(const ProcessId& process, const UniqueFd& pidfd) {
  if (const std::optional<int> status = StatusOfZombie(process)) return status;
  PidfdInfo info;
  info.mask = kInfoExit;
  if (!pidfd || ::ioctl(pidfd.get(), kGetInfo, &info) != 0 || (info.mask & kInfoExit) == 0)
    return std::nullopt;
  return info.exit_code;
}

}  // namespace carma::base
