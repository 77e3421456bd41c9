// Reads Xids from the kernel log. NVML reports only that an Xid occurred, whereas the log also
// names the process.
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
  std::string pci;  // in the kernel's form: "0000:07:00"
  int xid = 0;
  std::optional<pid_t> pid;  // in the host's pid namespace; empty: unknown
  friend bool operator==(const KernelXid&, const KernelXid&) = default;
};

// Parses "NVRM: Xid (PCI:0000:07:00): 31, pid=1668, name=python3, …", alone or after the record
// header of /dev/kmsg. Empty for other lines.
std::optional<KernelXid> ParseKernelXid(std::string_view line);

// True if NVML's "00000000:07:00.0" and the kernel's "0000:07:00" name the same device.
bool IsSamePlace(std::string_view nvml_pci, std::string_view kernel_pci);

class KernelLog {
 public:
  // path: /dev/kmsg, or a text file. Existing lines are skipped. If the file cannot be opened, the
  // error depends on errno (kDenied without CAP_SYSLOG, kNotFound in most containers).
  static Result<KernelLog> Open(const std::string& path);

  // Returns the Xids written since the last call. Never blocks. Lines that were overwritten in the
  // meantime are lost.
  std::vector<KernelXid> Read();

 private:
  explicit KernelLog(base::UniqueFd fd) : fd_(std::move(fd)) {}

  base::UniqueFd fd_;
  std::string begun_;  // an incomplete line
};

}  // namespace carma::gpu
