// Keeps GPU numbers stable: whatever the driver lists later, number 3 remains the same GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

// How often to look for a GPU that is missing or could not be described. This needs a new list,
// which may take seconds while the other GPUs wait.
inline constexpr base::Duration kLookAgainSpan{300'000};

// Returns true if all described GPUs have their earlier numbers. Then the GPUs that could not be
// described also have theirs.
bool SamePlaces(const std::vector<DeviceInfo>& now, const std::vector<DeviceInfo>& before);

// Used by one thread.
class SteadyProbe : public Probe {
 public:
  explicit SteadyProbe(std::unique_ptr<Probe> probe) : probe_(std::move(probe)) {}

  // Keeps the driver's first list, or the list given to Keep(). Later lists are returned in that
  // order. A GPU that can be described again has its current description, a GPU that is no longer
  // listed has a `trouble` that explains this, and new GPUs are not shown.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // device: index in the kept list. Errors: kNotFound also if the driver does not list the GPU. If
  // the GPU is missing, lost or could not be described, requests a new list from the driver, at
  // most once per kLookAgainSpan, because a library that lost a GPU does not see it return. If that
  // request fails, all reads are kUnavailable until Devices() succeeds.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  void LeaveAlone(const std::set<std::size_t>& devices) override;

  // Sets the kept list: an earlier list if the driver did not answer, or the list of Devices()
  // completed with stored facts about GPUs in trouble.
  void Keep(std::vector<DeviceInfo> devices) override;

 private:
  ReadResult<Unit> List();
  void Place();

  std::unique_ptr<Probe> probe_;
  std::vector<DeviceInfo> kept_;
  std::vector<DeviceInfo> driver_list_;
  std::vector<std::optional<std::size_t>> numbers_;  // the driver's number of each kept device
  std::vector<bool> lost_;                           // by device, according to its last reading
  bool listed_ = false;                              // the driver's list is still valid
  std::optional<base::Time> looked_;
};

}  // namespace carma::gpu
