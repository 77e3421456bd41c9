#include "daemon/gpus/fault_origins.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace carma::daemon {
namespace {

// How long a fault is remembered. Most affected programs exit soon, but a program that makes no
// CUDA calls for a while notices the fault late.
constexpr base::Duration kKept = std::chrono::hours(1);

}  // namespace

FaultOrigins::FaultOrigins(const std::string& path) {
  if (path.empty()) return;
  Result<gpu::KernelLog> log = gpu::KernelLog::Open(path);
  if (log) {
    log_ = *std::move(log);
  } else {
    unreadable_ = log.error().message;
  }
}

void FaultOrigins::Look(base::Time now, Attribution& attribution) {
  while (!recent_.empty() && recent_.front().seen < now - kKept) recent_.pop_front();
  if (!unreadable_.empty())
    base::LogInfo("kernel_log_not_read", {{"why", std::exchange(unreadable_, {})}});
  if (!log_) return;
  for (const gpu::KernelXid& xid : log_->Read()) {
    if (!xid.pid) continue;
    if (const std::optional<core::TaskId> task = attribution.Find(*xid.pid)) {
      base::LogInfo("fault_origin", {{"task", *task}, {"xid", xid.xid}, {"pid", *xid.pid}});
      recent_.push_back({now, xid.pci, *task});
    }
  }
}

std::optional<core::TaskId> FaultOrigins::LastOn(std::string_view pci, base::Time now,
                                                 base::Time since) const {
  std::optional<core::TaskId> last;
  for (const Fault& fault : recent_) {
    const bool counts = fault.seen >= now - kKept && fault.seen >= since;
    if (counts && gpu::IsSamePlace(pci, fault.pci)) last = fault.task;
  }
  return last;
}

}  // namespace carma::daemon
