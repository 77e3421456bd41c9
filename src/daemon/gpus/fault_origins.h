// Uses the kernel log, which names the faulty process, to find the task that caused a GPU fault.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "core/values/ids.h"
#include "daemon/gpus/attribution.h"
#include "gpu/kernel_log.h"

namespace carma::daemon {

class FaultOrigins {
 public:
  // path: the kernel log. If empty, no log is read. If the log cannot be read, the first call to
  // Look() logs the reason, and LastOn() never finds a task.
  explicit FaultOrigins(const std::string& path);

  // Reads new lines of the kernel log. Must be called before WhoUses() in each round of readings:
  // the faulty process usually no longer uses a GPU, and WhoUses() forgets such processes.
  void Look(base::Time now, Attribution& attribution);
  // The task that caused the last fault on that GPU within the past hour and after `since`. pci:
  // the GPU's address as in NVML.
  std::optional<core::TaskId> LastOn(std::string_view pci, base::Time now, base::Time since) const;

 private:
  struct Fault {
    base::Time seen{};
    std::string pci;
    core::TaskId task{};
  };

  std::optional<gpu::KernelLog> log_;
  std::string unreadable_;  // why the log cannot be read; cleared by the first Look()
  std::deque<Fault> recent_;
};

}  // namespace carma::daemon
