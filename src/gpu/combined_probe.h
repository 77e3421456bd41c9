// Combines NVML with activity counters from the driver itself (GPM, Hopper and newer) or from DCGM.
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
  // How long Devices() waits for `dcgmi` to print its first rows, in wall-clock time.
  base::Duration first_answer{4'000};
  // Clock used for the age of `dcgmi` rows; the boot clock if empty.
  std::function<base::Time()> real_now;
};

class CombinedProbe : public Probe {
 public:
  CombinedProbe(std::unique_ptr<Probe> nvml, CombinedOptions options);

  // A GPU reports SM activity if NVML or DCGM reports it. MIG instances have only NVML's counters.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // Reads NVML. If DCGM is needed, the counters come from a row of `dcgmi` that is at most three
  // periods old. Power and energy come from this row if NVML does not report them. An impossible
  // value from DCGM is reported as kCorrupt, like one from NVML.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  void LeaveAlone(const std::set<std::size_t>& devices) override { nvml_->LeaveAlone(devices); }

  // Why `dcgmi` provides no data, in one line. Empty if it works or is not needed.
  std::string DcgmTrouble() const { return dmon_ ? dmon_->trouble() : ""; }

 private:
  struct Device {
    DeviceInfo info;
    std::string pci_key;
    std::size_t number = 0;  // the whole GPU's number in PCI order
    Sanity sanity;
    std::vector<int> xids;  // from failed readings; added to the next reading
  };
  bool NeedsDcgm(const DeviceInfo& info) const;
  void AwaitFirstRows();
  base::Time RealNow() const;

  std::unique_ptr<Probe> nvml_;
  CombinedOptions options_;
  std::unique_ptr<DmonReader> dmon_;  // null: no GPU needs `dcgmi`
  std::vector<Device> devices_;
};

}  // namespace carma::gpu
