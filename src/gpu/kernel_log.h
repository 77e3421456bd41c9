// The kernel's log, as far as the driver writes its Xids there. NVML tells that there was one;
// which process made it stands in the log alone.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace carma::gpu {

struct KernelXid {
  std::string pci;  // as the kernel writes it: "0000:07:00"
  int xid = 0;
  std::optional<pid_t> pid;  // as the machine numbers processes; empty: not told
  friend bool operator==(const KernelXid&, const KernelXid&) = default;
};

// "NVRM: Xid (PCI:0000:07:00): 31, pid=1668, name=python3, …", alone or behind the head of a record
// of /dev/kmsg; empty for every other line.
std::optional<KernelXid> ParseKernelXid(std::string_view line);

// Whether NVML's "00000000:07:00.0" and the kernel's "0000:07:00" are one place.
bool IsSamePlace(std::string_view nvml_pci, std::string_view kernel_pci);

class KernelLog {
 public:
  // path: /dev/kmsg, or a file of lines. What was written before is passed over. Errors: as errno
  // has them (kDenied without CAP_SYSLOG, kNotFound in most containers).
  static base::Result<KernelLog> Open(const std::string& path);

  // The Xids written since the last call. Never waits. What the kernel has overwritten meanwhile is
  // lost.
  std::vector<KernelXid> Read();

 private:
  explicit KernelLog(base::UniqueFd fd) : fd_(std::move(fd)) {}

  base::UniqueFd fd_;
  std::string begun_;  // a line of which the end has not come yet
};

}  // namespace carma::gpu
