// A probe whose readings are set by the test.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

// Thread-safe: the daemon reads on a worker while the test changes the readings.
class FakeProbe : public Probe {
 public:
  explicit FakeProbe(std::vector<DeviceInfo> devices);
  // Returns `count` identical GPUs ("GPU-fake-0", …) that report SM activity, in PCI order.
  static std::vector<DeviceInfo> EqualDevices(std::size_t count, std::int64_t total_mib,
                                              std::int64_t reserved_mib = 0);

  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // Returns the last reading that was set, or the reading of an idle GPU if none was set. `taken`
  // is always `now`.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;

  void Set(std::size_t device, Reading reading);
  // Sets the processes, and the used memory to the sum of their memory.
  void SetProcesses(std::size_t device, std::vector<ProcessUse> processes,
                    std::optional<double> sm_active = 0.0);
  // Makes the device (or the list of devices) return this error until ClearFailures().
  void Fail(std::size_t device, ReadError error);
  void FailDevices(base::Error error);
  void ClearFailures();
  // Makes every call block until Release(), as if the driver hung.
  void Hang();
  void Release();
  // Number of Read() calls that have returned.
  std::size_t reads() const;
  // Number of calls that are currently blocked.
  std::size_t hanging() const;

 private:
  struct Device {
    Reading reading;
    std::optional<ReadError> error;
  };
  void WaitWhileHanging(std::unique_lock<std::mutex>& lock);

  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::vector<DeviceInfo> infos_;
  std::vector<Device> devices_;
  std::optional<base::Error> list_error_;
  bool hang_ = false;
  std::size_t reads_ = 0;
  std::size_t hanging_ = 0;
};

}  // namespace carma::gpu
