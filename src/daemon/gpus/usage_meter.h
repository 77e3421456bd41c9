// Integrates one GPU's usage over time from its readings, and makes rows for the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "gpu/probe.h"
#include "store/store.h"

namespace carma::daemon {

class UsageMeter {
 public:
  // longest: if two readings are further apart than this, the usage between them is unknown and not
  // part of any row.
  UsageMeter(std::string gpu_uuid, base::Duration longest)
      : gpu_uuid_(std::move(gpu_uuid)), longest_(longest) {}

  // tasks: number of tasks with processes on the GPU now.
  void Add(const gpu::Reading& reading, int tasks);
  // Appends the usage since the last call: usually one row, several if there was a gap, and none if
  // there were fewer than two readings. energy_shown_by_another: true if another instance of the
  // same MIG GPU reports the whole GPU's energy, so that this one reports 0 instead of "unknown".
  void Close(base::Time now, bool energy_shown_by_another, std::vector<store::GpuUsage>& rows);

 private:
  // Integrals since `from`.
  struct Span {
    base::Time from{};
    base::Time last{};
    double sm_ms = 0;
    double mib_ms = 0;
    bool sm_known = true;
    std::optional<double> energy_j;       // energy used; empty if never reported
    std::optional<double> last_energy_j;  // the driver's counter
    double dram_ms = 0;
    bool dram_known = true;
    double sm_peak = 0;
    std::int64_t used_peak_mib = 0;
    int tasks = 0;  // number of tasks at the last reading
  };
  void Begin(const gpu::Reading& reading, int tasks);
  store::GpuUsage RowOf(const Span& span) const;

  std::string gpu_uuid_;
  base::Duration longest_;
  std::optional<Span> span_;
  std::vector<store::GpuUsage> closed_;  // rows ended by a gap, for the next Close()
};

}  // namespace carma::daemon
