#include "gpu/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>

#include "base/text.h"

namespace carma::gpu {
namespace {

// The kernel's limit on record size. The kernel rejects a smaller buffer.
constexpr std::size_t kRecordBytes = 8192;
// Maximum number of records per call; the rest are left for the next call.
constexpr int kMostReads = 10'000;

std::string_view TakeUntil(std::string_view& rest, char end) {
  const std::size_t at = std::min(rest.find(end), rest.size());
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return taken;
}

template <class Number>
std::optional<Number> ParseNumber(std::string_view text, int base) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Domain, bus and device of an address such as "0000:07:00" or "00000000:07:00.0".
std::optional<std::array<std::uint32_t, 3>> PlaceOf(std::string_view pci) {
  std::array<std::uint32_t, 3> place{};
  pci = pci.substr(0, pci.find('.'));
  for (std::uint32_t& part : place) {
    const auto number = ParseNumber<std::uint32_t>(TakeUntil(pci, ':'), 16);
    if (!number) return std::nullopt;
    part = *number;
  }
  return pci.empty() ? std::optional(place) : std::nullopt;
}

}  // namespace

std::optional<KernelXid> ParseKernelXid(std::string_view line) {
  constexpr std::string_view kBegin = "NVRM: Xid (PCI:";
  std::string_view rest = line;
  // Skips the kernel's record header, "4,811,168790062,-;". The driver's message must follow it
  // directly, because any process, even a user's, can write the same words later in a record.
  if (const std::size_t head = rest.find(';'); head != rest.npos && !rest.starts_with(kBegin))
    rest.remove_prefix(head + 1);
  if (!rest.starts_with(kBegin)) return std::nullopt;
  rest.remove_prefix(kBegin.size());
  KernelXid found;
  // The PCI address may be followed by a MIG instance: "0000:07:00 GPU-I:05".
  std::string_view where = TakeUntil(rest, ')');
  found.pci = TakeUntil(where, ' ');
  if (!PlaceOf(found.pci) || !rest.starts_with(": ")) return std::nullopt;
  rest.remove_prefix(2);
  const auto xid = ParseNumber<int>(base::Trim(TakeUntil(rest, ',')), 10);
  if (!xid || *xid < 0) return std::nullopt;
  found.xid = *xid;
  // "pid=1668", or a word instead of the number if the driver does not know the process.
  const std::string_view next = base::Trim(TakeUntil(rest, ','));
  if (next.starts_with("pid=")) found.pid = ParseNumber<pid_t>(next.substr(4), 10);
  if (found.pid && *found.pid <= 0) found.pid.reset();
  return found;
}

bool IsSamePlace(std::string_view nvml_pci, std::string_view kernel_pci) {
  const auto place = PlaceOf(nvml_pci);
  return place && place == PlaceOf(kernel_pci);
}

Result<KernelLog> KernelLog::Open(const std::string& path) {
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd || ::lseek(fd.get(), 0, SEEK_END) < 0) return FailErrno(errno, path);
  return KernelLog(std::move(fd));
}

std::vector<KernelXid> KernelLog::Read() {
  std::vector<KernelXid> found;
  std::array<char, kRecordBytes> room;
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t count = ::read(fd_.get(), room.data(), room.size());
    // If records were overwritten or a signal arrived, the next read may succeed.
    if (count < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (count <= 0) break;
    begun_.append(room.data(), static_cast<std::size_t>(count));
    std::string_view rest = begun_;
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos;) {
      if (std::optional<KernelXid> xid = ParseKernelXid(rest.substr(0, end)))
        found.push_back(*std::move(xid));
      rest.remove_prefix(end + 1);
    }
    begun_ = rest.size() > kRecordBytes ? std::string() : std::string(rest);
  }
  return found;
}

}  // namespace carma::gpu
