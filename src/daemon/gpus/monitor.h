// Turns rounds of GPU readings into values for the core and for users: activity windows, memory per
// task, health, and usage over time.
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
#include "daemon/gpus/gpu_use.h"
#include "daemon/gpus/usage_meter.h"
#include "gpu/health.h"
#include "gpu/probe.h"
#include "gpu/window.h"
#include "store/store.h"

namespace carma::daemon {

// The text of every problem passed to NoteCuda() begins with this or core::kDriverUpgradeText.
inline constexpr std::string_view kCudaTrouble = "CUDA does not work there: ";

struct MonitorOptions {
  base::Duration window{60'000};
  base::Duration ewma{15'000};
  base::Duration history{900'000};  // how long single readings are kept
  gpu::HealthRules health;
  std::int64_t unattributed_mib = 2048;  // an alert is raised above this
};

// The part of a reading that is kept as history.
struct HistoryPoint {
  base::Time taken;
  std::optional<double> sm_active;  // 0..1, since the previous reading
  std::optional<double> dram_active;
  std::optional<double> power_w;
  std::int64_t used_mib = 0;
  int tasks = 0;  // tasks with processes on the GPU
};

class Monitor {
 public:
  Monitor(std::vector<gpu::DeviceInfo> devices, MonitorOptions options);

  // Processes one round of readings, which has one entry per device, in order. Entries for GPUs
  // that must not be read are empty. uses: from WhoUses(); GPUs beyond its end count as unused.
  //
  // Returns GpuSampled for each good reading and GpuHealthChanged for each changed verdict. Also
  // returns DrainRequested or ResumeRequested (by_rule) if the health rules close or open a GPU;
  // the caller must store these two. A device counts as lost after three "lost" reports in a row.
  std::vector<core::Event> Take(base::Time now, const gpu::Round& round,
                                std::vector<GpuUse> uses = {});
  // Called when the whole driver does not respond. Closes all GPUs that are still open.
  std::vector<core::Event> DriverSilent(const gpu::ReadError& why);

  // The usage since the last call, usually one row per GPU. A GPU with fewer than two readings has
  // no row. If there is a gap longer than a window, the GPU has one row before and one after the
  // gap.
  std::vector<store::GpuUsage> CloseUsage(base::Time now);
  // Largest fraction of the usable memory in use during the last two seconds; empty if there was no
  // reading.
  std::optional<double> RecentFullness(core::GpuIndex gpu, base::Time now) const;
  // The Xids of the last few seconds, newest last, excluding those before `since`.
  std::vector<int> RecentXids(core::GpuIndex gpu, base::Time now, base::Time since = {}) const;

  // Why the driver reported the GPU as lost in the last round; empty if it did not. Unlike in
  // Take(), a single report is enough.
  std::string LostNow(core::GpuIndex gpu) const;

  // The readings taken in [from, to), oldest first, going back as far as options.history. Limited
  // to the newest few thousand.
  std::vector<HistoryPoint> History(core::GpuIndex gpu, base::Time from, base::Time to) const;

  // Called when an administrator has reopened the GPU. Faults seen earlier no longer close it.
  void Acknowledge(core::GpuIndex gpu);
  // Records the result of a CUDA trial on the GPU (daemon/gpus/gpu_trials.h). trouble: why CUDA
  // does not work; empty if it works. If CUDA does not work, the health rules close the GPU at the
  // next reading. It stays closed until CUDA works or an administrator opens it.
  void NoteCuda(core::GpuIndex gpu, const std::string& trouble);
  const std::string& CudaTrouble(core::GpuIndex gpu) const { return Of(gpu).cuda_trouble; }
  // The message about a driver upgrade, which begins with core::kDriverUpgradeText; empty if the
  // installed driver is the one loaded.
  std::string DriverUpgrade() const;
  // True if the GPU was healthy according to the last verdict.
  bool Healthy(core::GpuIndex gpu) const { return Of(gpu).healthy; }
  // False if the last attempt to read the GPU failed. A GPU that has been drained since carmad
  // started was never read; it counts as readable if it could be described at the start.
  bool Readable(core::GpuIndex gpu) const;
  // Applies new values of history, health and unattributed_mib. The window length does not change.
  void Follow(const MonitorOptions& options);
  // Restores a drain started by an earlier carmad's health rules, with its reason.
  void RestoreDrain(core::GpuIndex gpu, const std::string& why);

  const std::vector<gpu::DeviceInfo>& devices() const { return devices_; }
  const std::optional<gpu::Reading>& LastReading(core::GpuIndex gpu) const { return Of(gpu).last; }
  // True if the GPU was read in the last round.
  bool Fresh(core::GpuIndex gpu) const { return Of(gpu).fresh; }
  // SM activity over the window: the mean, the 95th percentile, and a moving average that follows
  // changes faster than the mean.
  std::optional<double> WindowMean(core::GpuIndex gpu) const { return Of(gpu).window.SmActive(); }
  std::optional<double> WindowP95(core::GpuIndex gpu) const { return Of(gpu).window.SmActiveP95(); }
  std::optional<double> WindowEwma(core::GpuIndex gpu) const {
    return Of(gpu).window.SmActiveEwma(options_.ewma);
  }
  std::int64_t ObservedMib(core::GpuIndex gpu, core::TaskId task) const;
  // Which tasks and processes used the GPU at its last reading.
  const GpuUse& Use(core::GpuIndex gpu) const { return Of(gpu).use; }
  std::optional<SmShare> ShareOf(core::GpuIndex gpu, core::TaskId task) const {
    return Of(gpu).shares.Of(task);
  }
  // Alerts for administrators, one sentence each.
  std::vector<std::string> Alerts(core::GpuIndex gpu) const;
  // Why the health rules keep the GPU closed to new tasks; empty if they do not.
  const std::string& HealthTrouble(core::GpuIndex gpu) const { return Of(gpu).drain_told; }
  // How often each Xid has occurred since the daemon started.
  const std::map<int, std::uint64_t>& XidCounts(core::GpuIndex gpu) const {
    return Of(gpu).xid_counts;
  }
  // Returns "ok" or the first problem found.
  std::string DriverState() const;
  // Problems with GPUs that cannot be read, are closed by the health rules, or have an alert.
  std::vector<std::string> Troubles() const;

 private:
  struct Device {
    Device(const std::string& uuid, const MonitorOptions& options)
        : window(options.window), rules(options.health), usage(uuid, options.window) {}
    void Interrupt();  // called when a reading is missing
    gpu::Window window;
    gpu::Health rules;
    std::optional<gpu::Reading> last;
    bool fresh = false;  // `last` is from the last round
    GpuUse use;
    SmShares shares;
    std::deque<std::pair<base::Time, std::int64_t>> recent_used;
    std::deque<std::pair<base::Time, int>> recent_xids;
    bool healthy = true;
    std::string trouble;
    bool left_alone = false;  // not read in the last round, so `trouble` may be out of date
    int lost_in_a_row = 0;
    bool away = false;  // the device was lost and has not responded since
    UsageMeter usage;
    std::deque<HistoryPoint> history;
    std::string cuda_trouble;
    std::string drain_told;  // why the health rules close the GPU, or empty
    std::map<int, std::uint64_t> xid_counts;
    // When unattributed memory began to exceed the limit.
    std::optional<base::Time> unattributed_since;
    bool unattributed_alert = false;
  };
  static bool InTrouble(const Device& device) { return !device.healthy && !device.left_alone; }
  // Why the driver's reading cannot be used; empty if it can.
  std::optional<gpu::ReadError> Objection(std::size_t i,
                                          const gpu::ReadResult<gpu::Reading>& answer) const;
  void TakeError(std::size_t i, const gpu::ReadError& error, std::vector<core::Event>& events);
  // The error text for messages that already contain the GPU number.
  std::string TextOf(std::size_t i, const gpu::ReadError& error) const;
  void TakeReading(std::size_t i, const gpu::Reading& reading, base::Time now, GpuUse use);
  core::GpuSample Sample(const Device& device, const gpu::Reading& reading) const;
  void TakeHealth(std::size_t i, const gpu::Reading& reading, std::vector<core::Event>& events);
  // Requests or ends a drain if the result of the health rules or of NoteCuda() has changed.
  void TakeVerdict(std::size_t i, std::vector<core::Event>& events);
  bool UpgradeOf(std::size_t i) const;
  // The device's own Xids. For a MIG instance, also the Xids of the GPU's other instances if
  // they affect the whole GPU.
  std::vector<int> XidsFor(std::size_t i, const gpu::Round& round) const;
  void WatchUnattributed(std::size_t i, const gpu::Reading& reading);
  // As in UsageMeter::Close().
  bool EnergyIsShownByAnother(std::size_t i) const;
  void KeepHistory(Device& device, const gpu::Reading& reading) const;
  // Returns the GPU's device, or one without readings if the GPU no longer exists.
  const Device& Of(core::GpuIndex gpu) const;
  // Appends GpuHealthChanged if the verdict has changed.
  void Judge(std::size_t i, bool healthy, bool lost, std::string text,
             std::vector<core::Event>& events);

  MonitorOptions options_;
  std::vector<gpu::DeviceInfo> devices_;
  std::vector<Device> states_;
};

}  // namespace carma::daemon
