// What one GPU did over time, integrated from its readings: rows for the books.
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
  // longest: what lies between two readings further apart is not known and belongs to no row.
  UsageMeter(std::string gpu_uuid, base::Duration longest)
      : gpu_uuid_(std::move(gpu_uuid)), longest_(longest) {}

  // tasks: with processes on the GPU now.
  void Add(const gpu::Reading& reading, int tasks);
  // Appends everything since the last call: one row, more where there was a hole, none without two
  // readings. energy_shown_by_another: of the instances of a divided GPU one shows what the whole
  // has used; the others' part of a sum is then known, and nothing.
  void Close(base::Time now, bool energy_shown_by_another, std::vector<store::GpuUsage>& rows);

 private:
  // Since `from`, integrals over time.
  struct Span {
    base::Time from{};
    base::Time last{};
    double sm_ms = 0;
    double mib_ms = 0;
    bool sm_known = true;
    std::optional<double> energy_j;       // spent; empty: never told
    std::optional<double> last_energy_j;  // the driver's counter
    double dram_ms = 0;
    bool dram_known = true;
    double sm_peak = 0;
    std::int64_t used_peak_mib = 0;
    int tasks = 0;  // at its last reading
  };
  void Begin(const gpu::Reading& reading, int tasks);
  store::GpuUsage RowOf(const Span& span) const;

  std::string gpu_uuid_;
  base::Duration longest_;
  std::optional<Span> span_;
  std::vector<store::GpuUsage> closed_;  // ended by a hole, for the next Close()
};

}  // namespace carma::daemon
