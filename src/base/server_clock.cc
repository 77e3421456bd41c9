#include "base/server_clock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/process_id.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace carma::base {
namespace {

constexpr char kMagic[8] = {'C', 'A', 'R', 'M', 'A', 'G', 'P', 'U'};
constexpr std::uint32_t kLayoutVersion = 4;

}  // namespace

ServerHead MakeServerHead(std::uint32_t bytes, const ClockOrigin& clock) {
  ServerHead head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kLayoutVersion;
  head.bytes = bytes;
  const std::string boot_id = BootId();
  std::memcpy(head.boot_id, boot_id.data(), std::min(boot_id.size(), sizeof head.boot_id - 1));
  head.clock = clock;
  return head;
}

Result<Unit> CheckServerHead(const ServerHead& head, std::uint32_t bytes, const std::string& path) {
  const ServerHead good = MakeServerHead(bytes, head.clock);
  const char* wrong = nullptr;
  if (std::memcmp(head.magic, good.magic, sizeof good.magic) != 0) {
    wrong = "not a simulated GPU server";
  } else if (head.version != good.version || head.bytes != good.bytes) {
    wrong = "created by a different version of CARMA";
  } else if (std::memcmp(head.boot_id, good.boot_id, sizeof good.boot_id) != 0) {
    wrong = "created before the last reboot; create it again";
  } else if (!(head.clock.time_scale > 0) || !std::isfinite(head.clock.time_scale)) {
    wrong = "broken";
  }
  return wrong ? Result<Unit>(Fail(ErrorCode::kCorrupt, path + ": " + wrong)) : Unit{};
}

Result<ClockOrigin> ReadServerClock(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return FailErrno(errno, "opening the simulated GPU server " + path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return FailErrno(errno, path);
  ServerHead head{};
  if (!S_ISREG(status.st_mode) || ::pread(fd.get(), &head, sizeof head, 0) != sizeof head ||
      status.st_size != static_cast<off_t>(head.bytes)) {
    return Fail(ErrorCode::kCorrupt, path + ": damaged, or not a simulated GPU server");
  }
  CARMA_TRY(CheckServerHead(head, head.bytes, path));
  return head.clock;
}

}  // namespace carma::base
