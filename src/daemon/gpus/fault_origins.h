// Which task made a fault on a GPU: the kernel's log names the process.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "core/values/task.h"
#include "daemon/gpus/attribution.h"
#include "gpu/kernel_log.h"

namespace carma::daemon {

class FaultOrigins {
 public:
  // path: of the kernel's log; empty: not read. If it cannot be read, the first look says so in our
  // log, and then nothing is known.
  explicit FaultOrigins(const std::string& path);

  // Takes what was written since. Before the next list of processes is taken over: a process that
  // made a fault is mostly gone by then.
  void Look(base::Time now, Attribution& attribution);
  // The task that made the last fault there since then, and within the last hour. pci: as NVML has
  // it.
  std::optional<core::TaskId> LastOn(std::string_view pci, base::Time now, base::Time since) const;

 private:
  struct Fault {
    base::Time seen{};
    std::string pci;
    core::TaskId task{};
  };

  std::optional<gpu::KernelLog> log_;
  std::string unreadable_;  // why, until the first look
  std::deque<Fault> recent_;
};

}  // namespace carma::daemon
