// Turns rounds of readings into what the core and the people see: windows, attribution, health, use
// over time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/events.h"
#include "daemon/attribution.h"
#include "gpu/health.h"
#include "gpu/probe.h"
#include "gpu/window.h"
#include "store/store.h"

namespace carma::daemon {

struct MonitorOptions {
  base::Duration window{60'000};
  base::Duration ewma{15'000};
  base::Duration history{900'000};  // single readings are kept so long
  gpu::HealthRules health;
  std::int64_t unattributed_mib = 2048;  // more memory in use by nobody raises an alert
};

// What one reading said, as far as it is kept.
struct HistoryPoint {
  base::Time taken;
  std::optional<double> sm_active;  // 0..1, since the reading before
  std::optional<double> dram_active;
  std::optional<double> power_w;
  std::int64_t used_mib = 0;
  int tasks = 0;  // with processes on the GPU
};

class Monitor {
 public:
  Monitor(std::vector<gpu::DeviceInfo> devices, MonitorOptions options);

  // One round: an answer per device, in order. Returns GpuSampled for each good one and
  // GpuHealthChanged where the verdict changed. A device that says "lost" three times in a row is
  // lost.
  std::vector<core::Event> Take(base::Time now,
                                const std::vector<base::Result<gpu::Reading>>& round,
                                Attribution& attribution);
  // The driver as a whole does not answer: closes every GPU, once.
  std::vector<core::Event> DriverSilent(const std::string& text);

  // Everything since the last call, one row per GPU; nothing for a GPU without two readings.
  std::vector<store::GpuUsage> CloseUsage(base::Time now);
  // Highest share of the usable memory in use over the last two seconds; empty without a reading.
  std::optional<double> RecentFullness(core::GpuIndex gpu, base::Time now) const;
  // Xids of the last seconds, newest last.
  std::vector<int> RecentXids(core::GpuIndex gpu, base::Time now) const;

  // The readings of the last options.history that were taken in [from, to), oldest first; of very
  // frequent ones the newest few thousand.
  std::vector<HistoryPoint> History(core::GpuIndex gpu, base::Time from, base::Time to) const;

  // A person resumed the GPU: what the rules of health know now is no reason to close it any more.
  void Acknowledge(core::GpuIndex gpu);
  // An earlier daemon closed the GPU by rule, and why.
  void RestoreDrain(core::GpuIndex gpu, const std::string& why);

  const std::vector<gpu::DeviceInfo>& devices() const { return devices_; }
  const std::optional<gpu::Reading>& LastReading(core::GpuIndex gpu) const;
  std::optional<double> WindowMean(core::GpuIndex gpu) const;
  std::int64_t ObservedMib(core::GpuIndex gpu, core::TaskId task) const;
  // "ok" or the first trouble.
  std::string DriverState() const;

 private:
  struct Usage {
    base::Time from{};
    base::Time last{};
    double sm_ms = 0;   // integral of SM activity over time
    double mib_ms = 0;  // integral of used memory
    bool sm_known = true;
    std::optional<double> first_energy_j;
    std::optional<double> last_energy_j;
    double dram_ms = 0;  // integral of DRAM activity
    bool dram_known = true;
    double sm_peak = 0;
    std::int64_t used_peak_mib = 0;
  };
  struct Device {
    explicit Device(base::Duration length) : window(length) {}
    gpu::Window window;
    std::optional<gpu::Reading> last;
    std::map<core::TaskId, std::int64_t> tasks_mib;
    std::deque<std::pair<base::Time, std::int64_t>> recent_used;
    std::deque<std::pair<base::Time, int>> recent_xids;
    bool healthy = true;
    std::string trouble;
    int lost_in_a_row = 0;
    std::optional<Usage> usage;
    std::deque<HistoryPoint> history;
    std::string drain_told;  // why the rules of health have closed it; empty: they have not
  };
  core::GpuSample Sample(Device& device, const gpu::Reading& reading, Attribution& attribution);
  void AddUsage(Device& device, const gpu::Reading& reading);
  void KeepHistory(Device& device, const gpu::Reading& reading) const;
  // Appends GpuHealthChanged if the verdict is a new one.
  void Judge(std::size_t i, bool healthy, bool lost, const std::string& text,
             std::vector<core::Event>& events);

  MonitorOptions options_;
  std::vector<gpu::DeviceInfo> devices_;
  std::vector<Device> states_;
};

}  // namespace carma::daemon
