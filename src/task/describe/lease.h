// The process for which a task holds GPUs without being started by us: a lease (docs/leases.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/process_id.h"

namespace carma::task {

// A process that no other is taken for, after a restart of the machine either.
struct LeaseProcess {
  base::ProcessId process;
  std::string boot_id;
  friend bool operator==(const LeaseProcess&, const LeaseProcess&) = default;
};

// "4711 88213 0f6c…", as TaskSpec::lease has it. Empty: the text is none.
std::string TextOf(const LeaseProcess& process);
std::optional<LeaseProcess> ParseLeaseProcess(std::string_view text);
bool IsLeaseProcess(std::string_view text);

// A running process of this machine as it is known from now on; empty: there is none.
std::optional<LeaseProcess> FindLeaseProcess(pid_t pid);
// That very process runs.
bool Alive(const LeaseProcess& process);

}  // namespace carma::task
