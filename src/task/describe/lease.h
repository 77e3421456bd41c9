// Leases (docs/use/leases.md): tasks that hold GPUs for a process that carmad did not start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/process_id.h"

namespace carma::task {

// Identifies a process uniquely, even across reboots.
struct LeaseProcess {
  base::ProcessId process;
  std::string boot_id;
  friend bool operator==(const LeaseProcess&, const LeaseProcess&) = default;
};

// Convert to and from the text in TaskSpec::lease, such as "4711 88213 0f6c…". Parsing returns
// nothing if the text is malformed.
std::string TextOf(const LeaseProcess& process);
std::optional<LeaseProcess> ParseLeaseProcess(std::string_view text);

// How a workload manager identifies a job step that it starts on this machine. There is at most one
// unfinished lease per key.
struct LeaseKey {
  std::string cluster;
  std::uint64_t job = 0;
  std::string step;  // "batch", "interactive", or its number
  int rank = 0;      // rank of this machine within the step
  int restart = 0;   // number of times the job has been restarted

  static void VisitFields(auto& field, auto& key) {
    field("cluster", key.cluster, "Cluster name: letters, digits and any of '_', '-', '+', '.'",
          {.max_bytes = 64, .required = true});
    field("job", key.job, "Job number.", {.low = 1, .required = true});
    field("step", key.step, "Step of the job: batch, interactive or the step number.",
          {.max_bytes = 64, .required = true});
    field("rank", key.rank, "Rank of this machine within the step.", {.low = 0});
    field("restart", key.restart, "Number of times the job has been restarted.", {.low = 0});
  }
  // True if this step is the job's own script or shell, which starts all other steps.
  bool IsBase() const { return step == "batch" || step == "interactive"; }
  friend bool operator==(const LeaseKey&, const LeaseKey&) = default;
};

// Convert to and from the text in TaskSpec::lease_key, such as "bed 4711 batch 0 0". Parsing
// returns nothing if the text is malformed.
std::string TextOf(const LeaseKey& key);
std::optional<LeaseKey> ParseLeaseKey(std::string_view text);

// Identifies a running process on this machine. Empty if there is no such process.
std::optional<LeaseProcess> FindLeaseProcess(pid_t pid);
// Returns true if this process is still running, false if it has ended or its pid was reused.
bool Alive(const LeaseProcess& process);

// The name of a process that has adopted a lease but has not yet started the real program. The name
// changes when the process execs that program.
inline constexpr std::string_view kWaitsForLease = "carma-wait";
// Returns true once the process has a name other than kWaitsForLease. Empty if its name is unknown,
// as it is once the parent has reaped the process.
std::optional<bool> HasBegun(const LeaseProcess& process);

}  // namespace carma::task
