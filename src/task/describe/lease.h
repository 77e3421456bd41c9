// The process for which a task holds GPUs without being started by us: a lease
// (docs/use/leases.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fields.h"
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

// What a workload manager calls the step of a job that it starts here. Of one key there is at most
// one lease that has not ended.
struct LeaseKey {
  std::string cluster;
  std::uint64_t job = 0;
  std::string step;  // "batch", "interactive", or its number
  int rank = 0;      // of this machine among those of the step
  int restart = 0;   // how often the job was started again

  template <class Visitor, class Self>
  static void VisitFields(Visitor& field, Self& key) {
    field("cluster", key.cluster, "Name of the cluster: letters, digits and _-+.",
          {.max_bytes = 64, .required = true});
    field("job", key.job, "Number of the job.", {.low = 1, .required = true});
    field("step", key.step, "batch, interactive, or the number of the step.",
          {.max_bytes = 64, .required = true});
    field("rank", key.rank, "Of this machine among those of the step.", {.low = 0});
    field("restart", key.restart, "How often the job was started again.", {.low = 0});
  }
  // The step's task is the job's own script or shell, which starts all other steps.
  bool IsBase() const { return step == "batch" || step == "interactive"; }
  friend bool operator==(const LeaseKey&, const LeaseKey&) = default;
};

// "bed 4711 batch 0 0", as TaskSpec::lease_key has it. Empty: the text is none.
std::string TextOf(const LeaseKey& key);
std::optional<LeaseKey> ParseLeaseKey(std::string_view text);
bool IsLeaseKey(std::string_view text);

// A running process of this machine as it is known from now on; empty: there is none.
std::optional<LeaseProcess> FindLeaseProcess(pid_t pid);
// That very process runs.
bool Alive(const LeaseProcess& process);

// A process of this name that adopts a lease has not begun: by exec it becomes what the lease is
// for, and has another name from then on.
inline constexpr std::string_view kWaitsForLease = "carma-wait";
// Whether it has; as long as it runs, or its parent has not asked how it ended. Empty: nobody can
// tell any more.
std::optional<bool> HasBegun(const LeaseProcess& process);

}  // namespace carma::task
