#include "gpu/steady_probe.h"

#include <algorithm>
#include <utility>

#include "base/try.h"

namespace carma::gpu {

bool SamePlaces(const std::vector<DeviceInfo>& now, const std::vector<DeviceInfo>& before) {
  return std::ranges::equal(now, before, [](const DeviceInfo& each, const DeviceInfo& was) {
    return !each.trouble.empty() || each.uuid == was.uuid;
  });
}

void SteadyProbe::Keep(std::vector<DeviceInfo> devices) {
  kept_ = std::move(devices);
  if (listed_) Place();
}

void SteadyProbe::Place() {
  numbers_.assign(kept_.size(), std::nullopt);
  lost_.assign(kept_.size(), false);
  const bool same_places = SamePlaces(driver_list_, kept_);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    auto found = std::ranges::find(driver_list_, kept_[i].uuid, &DeviceInfo::uuid);
    if (found == driver_list_.end() && same_places)
      found = driver_list_.begin() + static_cast<std::ptrdiff_t>(i);
    if (found == driver_list_.end()) {
      if (kept_[i].trouble.empty()) kept_[i].trouble.text = "the driver no longer lists it";
      continue;
    }
    numbers_[i] = static_cast<std::size_t>(found - driver_list_.begin());
    // A GPU that cannot be described now keeps its earlier description.
    if (found->trouble.empty()) {
      kept_[i] = *found;
    } else {
      kept_[i].trouble = found->trouble;
    }
  }
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
  if (!numbers_[device])
    return FailRead(ErrorCode::kNotFound, kept_[device].trouble.text, kept_[device].uuid);
  ReadResult<Reading> reading = probe_->Read(*numbers_[device], now);
  lost_[device] = !reading && reading.error().code == ErrorCode::kNotFound;
  return reading;
}

void SteadyProbe::LeaveAlone(const std::set<std::size_t>& devices) {
  if (!listed_) return;
  std::set<std::size_t> of_driver;
  for (const std::size_t device : devices) {
    if (device < numbers_.size() && numbers_[device]) of_driver.insert(*numbers_[device]);
  }
  probe_->LeaveAlone(of_driver);
}

}  // namespace carma::gpu
