// Turns rounds of readings into what the core and the people see: windows, attribution, health, use
// over time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/scheduler/events.h"
#include "daemon/gpus/attribution.h"
#include "daemon/gpus/gpu_use.h"
#include "daemon/gpus/usage_meter.h"
#include "gpu/health.h"
#include "gpu/probe.h"
#include "gpu/window.h"
#include "store/store.h"

namespace carma::daemon {

// How what NoteCuda() is told begins, or with core::kDriverUpgrade.
inline constexpr std::string_view kCudaTrouble = "CUDA does not work there: ";

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

  // One round: an answer per device, in order, none for those that are left alone. Returns
  // GpuSampled for each good one, GpuHealthChanged where the verdict changed, and DrainRequested or
  // ResumeRequested by rule where the rules of health close or open a GPU, which the books must
  // keep. A device that says "lost" three times in a row is lost.
  std::vector<core::Event> Take(base::Time now, const gpu::Round& round, Attribution& attribution);
  // The driver as a whole does not answer: closes every GPU, once.
  std::vector<core::Event> DriverSilent(const gpu::ReadError& why);

  // Everything since the last call, one row per GPU and more where nothing was read for longer than
  // a window in between, which belongs to no row; nothing for a GPU without two readings.
  std::vector<store::GpuUsage> CloseUsage(base::Time now);
  // Highest share of the usable memory in use over the last two seconds; empty without a reading.
  std::optional<double> RecentFullness(core::GpuIndex gpu, base::Time now) const;
  // Xids of the last seconds, but not of before `since`, newest last.
  std::vector<int> RecentXids(core::GpuIndex gpu, base::Time now, base::Time since = {}) const;

  // What the last round said of a GPU that is lost, were it for the first time; empty: it is there.
  std::string LostNow(core::GpuIndex gpu) const;

  // The readings of the last options.history that were taken in [from, to), oldest first; of very
  // frequent ones the newest few thousand.
  std::vector<HistoryPoint> History(core::GpuIndex gpu, base::Time from, base::Time to) const;

  // A person resumed the GPU: what the rules of health know now is no reason to close it any more.
  void Acknowledge(core::GpuIndex gpu);
  // What a trial of CUDA on the GPU has found (daemon/gpus/gpu_trials.h); empty: that it works. The
  // rules of health close it by that, with the next reading, until it works or a person opens it.
  void NoteCuda(core::GpuIndex gpu, const std::string& trouble);
  const std::string& CudaTrouble(core::GpuIndex gpu) const;
  // Begins with core::kDriverUpgrade; "": the loaded driver is the installed one.
  std::string DriverUpgrade() const;
  // The last verdict: it answers.
  bool Healthy(core::GpuIndex gpu) const;
  // Other values of history, health and unattributed_mib from now on; windows stay as they are.
  void Follow(const MonitorOptions& options);
  // An earlier daemon closed the GPU by rule, and why.
  void RestoreDrain(core::GpuIndex gpu, const std::string& why);

  const std::vector<gpu::DeviceInfo>& devices() const { return devices_; }
  const std::optional<gpu::Reading>& LastReading(core::GpuIndex gpu) const;
  // True if the last round has read the GPU.
  bool Fresh(core::GpuIndex gpu) const;
  // SM activity over the window: mean, what was not exceeded for 95 % of it, and a mean that
  // follows faster.
  std::optional<double> WindowMean(core::GpuIndex gpu) const;
  std::optional<double> WindowP95(core::GpuIndex gpu) const;
  std::optional<double> WindowEwma(core::GpuIndex gpu) const;
  std::int64_t ObservedMib(core::GpuIndex gpu, core::TaskId task) const;
  // Who uses the GPU, as its last reading told.
  const GpuUse& Use(core::GpuIndex gpu) const;
  std::optional<SmShare> ShareOf(core::GpuIndex gpu, core::TaskId task) const;
  // What somebody should look at, one sentence each.
  std::vector<std::string> Alerts(core::GpuIndex gpu) const;
  // What the rules of health have against new tasks; empty: nothing.
  const std::string& HealthTrouble(core::GpuIndex gpu) const;
  // Xids announced since the daemon started, by number.
  const std::map<int, std::uint64_t>& XidCounts(core::GpuIndex gpu) const;
  // "ok" or the first trouble.
  std::string DriverState() const;
  // What is wrong with the GPUs, one by one: unreadable, drained by rule, alerts.
  std::vector<std::string> Troubles() const;

 private:
  struct Device {
    Device(const std::string& uuid, const MonitorOptions& options)
        : window(options.window), rules(options.health), usage(uuid, options.window) {}
    void Interrupt();  // no reading
    gpu::Window window;
    gpu::Health rules;
    std::optional<gpu::Reading> last;
    bool fresh = false;  // `last` is of the last round
    GpuUse use;
    SmShares shares;
    std::deque<std::pair<base::Time, std::int64_t>> recent_used;
    std::deque<std::pair<base::Time, int>> recent_xids;
    bool healthy = true;
    std::string trouble;
    int lost_in_a_row = 0;
    bool away = false;  // was lost, and has not answered since
    UsageMeter usage;
    std::deque<HistoryPoint> history;
    std::string cuda_trouble;
    std::string drain_told;  // why the rules of health have closed it; empty: they have not
    std::map<int, std::uint64_t> xid_counts;
    std::optional<base::Time> unattributed_since;  // more than the limit
    bool unattributed_alert = false;
  };
  // Why the answer cannot be used; empty: it is a reading.
  std::optional<gpu::ReadError> Objection(std::size_t i,
                                          const gpu::ReadResult<gpu::Reading>& answer) const;
  void TakeError(std::size_t i, const gpu::ReadError& error, std::vector<core::Event>& events);
  // The error for people who are told it with the GPU's number.
  std::string TextOf(std::size_t i, const gpu::ReadError& error) const;
  void TakeReading(std::size_t i, const gpu::Reading& reading, base::Time now,
                   Attribution& attribution);
  core::GpuSample Sample(const Device& device, const gpu::Reading& reading) const;
  // What the rules of health say after this reading.
  void TakeHealth(std::size_t i, const gpu::Reading& reading, std::vector<core::Event>& events);
  // Asks for a drain or its end, where what they say or what was noted of CUDA is new.
  void TakeVerdict(std::size_t i, std::vector<core::Event>& events);
  bool UpgradeOf(std::size_t i) const;
  // The reading's Xids, and those of other instances of the same GPU that concern all of it.
  std::vector<int> XidsFor(std::size_t i, const gpu::Round& round) const;
  void WatchUnattributed(std::size_t i, const gpu::Reading& reading);
  // As UsageMeter::Close() takes it.
  bool EnergyIsShownByAnother(std::size_t i) const;
  void KeepHistory(Device& device, const gpu::Reading& reading) const;
  const Device* Find(core::GpuIndex gpu) const;
  // Appends GpuHealthChanged if the verdict is a new one.
  void Judge(std::size_t i, bool healthy, bool lost, std::string text,
             std::vector<core::Event>& events);

  MonitorOptions options_;
  std::vector<gpu::DeviceInfo> devices_;
  std::vector<Device> states_;
};

}  // namespace carma::daemon
