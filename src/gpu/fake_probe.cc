#include "gpu/fake_probe.h"

#include <utility>

namespace carma::gpu {

FakeProbe::FakeProbe(std::vector<DeviceInfo> devices)
    : infos_(std::move(devices)), devices_(infos_.size()) {
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    Reading& reading = devices_[i].reading;
    reading.total_mib = infos_[i].total_mib;
    reading.reserved_mib = infos_[i].reserved_mib;
    if (infos_[i].reports_sm_activity) reading.sm_active = 0.0;
  }
}

std::vector<DeviceInfo> FakeProbe::EqualDevices(std::size_t count, std::int64_t total_mib,
                                                std::int64_t reserved_mib) {
  std::vector<DeviceInfo> devices(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    devices[i] = {.uuid = "GPU-fake-" + number,
                  .name = "Fake GPU",
                  .pci = "00000000:" + std::string(i < 10 ? "0" : "") + number + ":00.0",
                  .total_mib = total_mib,
                  .reserved_mib = reserved_mib,
                  .reports_sm_activity = true};
  }
  return devices;
}

void FakeProbe::WaitWhileHanging(std::unique_lock<std::mutex>& lock) {
  ++hanging_;
  released_.wait(lock, [this] { return !hang_; });
  --hanging_;
}

ReadResult<std::vector<DeviceInfo>> FakeProbe::Devices() {
  std::unique_lock lock(mutex_);
  WaitWhileHanging(lock);
  if (list_error_) return std::unexpected(*list_error_);
  return infos_;
}

ReadResult<Reading> FakeProbe::Read(std::size_t device, base::Time now) {
  std::unique_lock lock(mutex_);
  WaitWhileHanging(lock);
  if (device >= devices_.size()) return NotFound("no GPU " + std::to_string(device));
  ++reads_;
  if (devices_[device].error) return std::unexpected(*devices_[device].error);
  Reading reading = devices_[device].reading;
  reading.taken = now;
  return reading;
}

void FakeProbe::Set(std::size_t device, Reading reading) {
  const std::scoped_lock lock(mutex_);
  devices_.at(device).reading = std::move(reading);
}

void FakeProbe::SetProcesses(std::size_t device, std::vector<ProcessUse> processes,
                             std::optional<double> sm_active) {
  const std::scoped_lock lock(mutex_);
  Reading& reading = devices_.at(device).reading;
  reading.used_mib = 0;
  for (const ProcessUse& use : processes) reading.used_mib += use.used_mib.value_or(0);
  reading.processes = std::move(processes);
  reading.sm_active = sm_active;
}

void FakeProbe::Fail(std::size_t device, ReadError error) {
  const std::scoped_lock lock(mutex_);
  devices_.at(device).error = std::move(error);
}

void FakeProbe::FailDevices(base::Error error) {
  const std::scoped_lock lock(mutex_);
  list_error_ = std::move(error);
}

void FakeProbe::ClearFailures() {
  const std::scoped_lock lock(mutex_);
  list_error_.reset();
  for (Device& device : devices_) device.error.reset();
}

void FakeProbe::Hang() {
  const std::scoped_lock lock(mutex_);
  hang_ = true;
}

void FakeProbe::Release() {
  const std::scoped_lock lock(mutex_);
  hang_ = false;
  released_.notify_all();
}

std::size_t FakeProbe::reads() const {
  const std::scoped_lock lock(mutex_);
  return reads_;
}

std::size_t FakeProbe::hanging() const {
  const std::scoped_lock lock(mutex_);
  return hanging_;
}

}  // namespace carma::gpu
