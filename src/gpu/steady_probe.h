// Keeps GPU numbers stable: number 3 always means the same GPU, whatever the driver lists later.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

// How often to look for a GPU that is missing or could not be described. Each attempt requires a
// new list, which may take seconds while the other GPUs wait.
inline constexpr base::Duration kLookAgainSpan{300'000};

// For use from a single thread.
class SteadyProbe : public Probe {
 public:
  explicit SteadyProbe(std::unique_ptr<Probe> probe) : probe_(std::move(probe)) {}

  // Keeps the driver's first list, or the list given to Keep(), and returns later lists in the same
  // order. Updates the description of a GPU that can be described again. If a GPU with instances is
  // listed as a single device because it cannot be described, all its instances get its trouble.
  // Sets `trouble` for a GPU that is no longer listed. Omits new GPUs.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // device: index in the kept list. Also returns kNotFound if the driver does not list the GPU, or
  // kUnavailable if it may be a GPU that the driver lists but cannot identify. If the GPU is
  // missing, lost or could not be described, requests a new list from the driver, at most once per
  // kLookAgainSpan, because a library that lost a GPU does not notice its return. Also requests a
  // new list if the driver's list has changed. If a request fails, all reads return kUnavailable
  // until Devices() succeeds.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  void LeaveAlone(const std::set<std::size_t>& devices) override;

  // Replaces the kept list. If the driver does not respond, the daemon passes its saved list.
  // Otherwise it passes the list from Devices(), with saved descriptions of GPUs that are in
  // trouble.
  void Keep(std::vector<DeviceInfo> devices) override;

 private:
  ReadResult<Unit> List();
  void Place();
  // True if the driver lists a GPU without a UUID or address that matches no kept GPU. It may be
  // any kept GPU that was not found.
  bool HasUnplacedGpu() const;

  std::unique_ptr<Probe> probe_;
  std::vector<DeviceInfo> kept_;
  std::vector<DeviceInfo> driver_list_;
  std::vector<std::optional<std::size_t>> numbers_;  // the driver's number for each kept device
  std::vector<bool> lost_;                           // by device, according to its last reading
  bool listed_ = false;                              // the driver's list is still valid
  std::optional<base::Time> looked_;
};

}  // namespace carma::gpu
