#include "gpu/steady_probe.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "gpu/own_devices.h"
#include "gpu/same_gpus.h"

namespace carma::gpu {

void SteadyProbe::Keep(std::vector<DeviceInfo> devices) {
  kept_ = std::move(devices);
  if (listed_) Place();
}

void SteadyProbe::Place() {
  numbers_.assign(kept_.size(), std::nullopt);
  lost_.assign(kept_.size(), false);
  const std::vector<GpuEntries> listed = SameGpus(kept_, driver_list_);
  const std::vector<std::size_t> gpus = NumbersOfWhole(kept_);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const DeviceInfo* found = EntryFor(kept_[i], listed[gpus[i]]);
    if (found == nullptr) {
      kept_[i].trouble = {"the driver no longer lists it"};
      continue;
    }
    numbers_[i] = static_cast<std::size_t>(found - driver_list_.data());
    // A GPU that cannot be described now keeps its earlier description.
    if (found->trouble.empty()) {
      kept_[i] = *found;
    } else {
      kept_[i].trouble = found->trouble;
    }
  }
}

bool SteadyProbe::HasUnplacedGpu() const {
  for (std::size_t i = 0; i < driver_list_.size(); ++i) {
    const DeviceInfo& listed = driver_list_[i];
    const bool placed = std::ranges::find(numbers_, std::optional(i)) != numbers_.end();
    if (!placed && listed.uuid.starts_with(kUnknownGpu) && listed.pci.empty()) return true;
  }
  return false;
}

ReadResult<Unit> SteadyProbe::List() {
  ReadResult<std::vector<DeviceInfo>> listed = probe_->Devices();
  listed_ = listed.has_value();
  if (!listed) return std::unexpected(listed.error());
  driver_list_ = std::move(*listed);
  if (kept_.empty()) kept_ = driver_list_;
  Place();
  return Unit{};
}

ReadResult<std::vector<DeviceInfo>> SteadyProbe::Devices() {
  CARMA_TRY(List());
  looked_.reset();
  return kept_;
}

ReadResult<Reading> SteadyProbe::Read(std::size_t device, base::Time now) {
  if (device >= kept_.size()) return NotFound("no GPU {}", device);
  if (!looked_) looked_ = now;
  if (!listed_) return Unavailable("waiting for the driver's list of GPUs");
  const bool missing = !numbers_[device] || !kept_[device].trouble.empty() || lost_[device];
  if (missing && now - *looked_ >= kLookAgainSpan) {
    looked_ = now;
    CARMA_TRY(List());
  }
  const auto read = [&]() -> ReadResult<Reading> {
    if (numbers_[device]) return probe_->Read(*numbers_[device], now);
    if (HasUnplacedGpu()) {
      return FailRead(ErrorCode::kUnavailable,
                      "the driver cannot identify a GPU that may be this one", kept_[device].uuid);
    }
    return FailRead(ErrorCode::kNotFound, kept_[device].trouble.text, kept_[device].uuid);
  };
  ReadResult<Reading> reading = read();
  if (!reading && reading.error().code == ErrorCode::kConflict) {
    CARMA_TRY(List());
    reading = read();
  }
  lost_[device] = !reading && reading.error().code == ErrorCode::kNotFound;
  return reading;
}

void SteadyProbe::LeaveAlone(const std::set<std::size_t>& devices) {
  if (!listed_) return;
  std::set<std::size_t> of_driver, wanted;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    if (numbers_[i]) (devices.contains(i) ? of_driver : wanted).insert(*numbers_[i]);
  }
  // If the driver lists a GPU without its instances, they all have its number. Such a GPU is left
  // alone only if all its instances are.
  std::erase_if(of_driver, [&](std::size_t number) { return wanted.contains(number); });
  probe_->LeaveAlone(of_driver);
}

}  // namespace carma::gpu
