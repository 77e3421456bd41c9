#include "gpu/combined_probe.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/try.h"
#include "gpu/counters.h"
#include "gpu/own_devices.h"

namespace carma::gpu {
namespace {

constexpr std::chrono::milliseconds kGlance{100};

void ForgetCounters(Reading& reading) {
  for (const Counter& counter : Counters()) (reading.*counter.value).reset();
  reading.counters = CounterSource::kNone;
}

void AddRow(const DmonRow& row, Reading& reading) {
  for (const Counter& counter : Counters()) reading.*counter.value = row.values.*counter.value;
  reading.counters = row.values.counters;
  if (!reading.power_w) reading.power_w = row.values.power_w;
  if (!reading.energy_j) reading.energy_j = row.values.energy_j;
}

}  // namespace

CombinedProbe::CombinedProbe(std::unique_ptr<Probe> nvml, CombinedOptions options)
    : nvml_(std::move(nvml)), options_(std::move(options)) {}

base::Time CombinedProbe::RealNow() const {
  return options_.real_now ? options_.real_now() : base::FromMs(base::BootTimeNs() / 1'000'000);
}

bool CombinedProbe::NeedsDcgm(const DeviceInfo& info) const {
  // DCGM numbers MIG instances, but its output does not show which number belongs to which
  // instance.
  if (info.mig || !info.trouble.empty()) return false;
  return options_.dcgm_for_all || !info.reports_sm_activity;
}

// Waits a few seconds, because a freshly started `dcgmi` prints rows of "N/A" at first. The probe
// must know whether a GPU reports SM activity before listing it.
void CombinedProbe::AwaitFirstRows() {
  const auto deadline = std::chrono::steady_clock::now() + options_.first_answer;
  const auto all_counted = [this] {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (!NeedsDcgm(devices_[i].info)) continue;
      const DmonRow* row = dmon_->Find(devices_[i].pci_key, devices_[i].number, RealNow());
      if (!row || (!row->values.sm_active && row->objection.empty())) return false;
    }
    return true;
  };
  dmon_->Poll(RealNow());
  while (dmon_->running() && !all_counted() && std::chrono::steady_clock::now() < deadline) {
    dmon_->Wait(kGlance);
    dmon_->Poll(RealNow());
  }
}

ReadResult<std::vector<DeviceInfo>> CombinedProbe::Devices() {
  std::vector<DeviceInfo> infos = CARMA_TRY(nvml_->Devices());
  devices_.clear();
  const std::vector<std::size_t> numbers = NumbersOfWhole(infos);
  for (std::size_t i = 0; i < infos.size(); ++i)
    devices_.push_back({infos[i], PciKey(infos[i].pci), numbers[i], {}, {}});
  const auto needs = [this](const DeviceInfo& info) { return NeedsDcgm(info); };
  if (std::ranges::none_of(infos, needs)) {
    dmon_.reset();
    return infos;
  }
  if (!dmon_) dmon_ = std::make_unique<DmonReader>(options_.dmon);
  AwaitFirstRows();
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (!NeedsDcgm(devices_[i].info)) continue;
    const DmonRow* row = dmon_->Find(devices_[i].pci_key, devices_[i].number, RealNow());
    infos[i].reports_sm_activity = row && row->values.sm_active;
  }
  return infos;
}

ReadResult<Reading> CombinedProbe::Read(std::size_t index, base::Time now) {
  ReadResult<Reading> reading = nvml_->Read(index, now);
  if (!reading || !dmon_ || index >= devices_.size()) return reading;
  Device& device = devices_[index];
  if (!NeedsDcgm(device.info)) return reading;
  dmon_->Poll(RealNow());
  ForgetCounters(*reading);
  device.xids.insert(device.xids.end(), reading->xids.begin(), reading->xids.end());
  if (const DmonRow* row = dmon_->Find(device.pci_key, device.number, RealNow())) {
    if (!row->objection.empty())
      return FailRead(ErrorCode::kCorrupt, "DCGM's " + row->objection, device.info.uuid);
    AddRow(*row, *reading);
  }
  CARMA_TRY(device.sanity.Check(device.info.uuid, *reading));
  reading->xids = std::exchange(device.xids, {});
  return reading;
}

}  // namespace carma::gpu
