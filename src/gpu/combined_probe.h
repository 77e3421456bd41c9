// Everything from NVML, with the activity counters from the driver itself (GPM, Hopper and newer)
// or DCGM.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/dmon_reader.h"
#include "gpu/probe.h"
#include "gpu/sanity.h"

namespace carma::gpu {

struct CombinedOptions {
  bool dcgm_for_all = false;  // also for GPUs whose driver reports SM activity (GPM)
  DmonOptions dmon;
  // How long Devices() waits for the first counts of `dcgmi`, in real time.
  base::Duration first_answer{4'000};
  // Real time; empty: the boot clock.
  std::function<base::Time()> real_now;
};

class CombinedProbe : public Probe {
 public:
  CombinedProbe(std::unique_ptr<Probe> nvml, CombinedOptions options);

  // A GPU reports SM activity if either source does. Instances of divided GPUs only have NVML's.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // Reads NVML. Where DCGM is needed, takes the counters (and power and energy if NVML has none)
  // from a row of `dcgmi` that is at most three of its periods old. kCorrupt also for impossible
  // values of DCGM.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  void LeaveAlone(const std::set<std::size_t>& devices) override { nvml_->LeaveAlone(devices); }

  // Why `dcgmi` gives no data, in one line; empty: it is not needed, or it works.
  std::string DcgmTrouble() const { return dmon_ ? dmon_->trouble() : ""; }

 private:
  struct Device {
    DeviceInfo info;
    std::string pci_key;
    std::size_t number = 0;  // of the whole GPU, in the order of the bus
    Sanity sanity;
    std::vector<int> xids;  // from readings that failed
  };
  bool NeedsDcgm(const DeviceInfo& info) const;
  void AwaitFirstRows();
  base::Time RealNow() const;

  std::unique_ptr<Probe> nvml_;
  CombinedOptions options_;
  std::unique_ptr<DmonReader> dmon_;  // null: no GPU needs it
  std::vector<Device> devices_;
};

}  // namespace carma::gpu
