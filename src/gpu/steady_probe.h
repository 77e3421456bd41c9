// Keeps the numbers of GPUs: whatever the driver lists later, number 3 is the GPU that it was.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/probe.h"

namespace carma::gpu {

// How often a GPU that is missing or in trouble is looked for. The list is made anew for it, which
// takes a driver up to seconds, and the other GPUs wait.
inline constexpr base::Duration kLookAgainSpan{300'000};

// True: all GPUs that could be described have the numbers that they had before, so that the others
// are those of the same numbers.
bool SamePlaces(const std::vector<DeviceInfo>& now, const std::vector<DeviceInfo>& before);

// Of one thread.
class SteadyProbe : public Probe {
 public:
  explicit SteadyProbe(std::unique_ptr<Probe> probe) : probe_(std::move(probe)) {}

  // The first list of the driver is kept, or the one that Keep() was given. Later ones are told as
  // the kept one: of a GPU that can be described again the description is the present one, one that
  // is no longer listed has a trouble that says so, and new ones are not shown.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // By the numbers of the kept list. kNotFound also for a GPU that the driver does not list; such
  // ones, those in trouble and lost ones (a library that saw a GPU go does not see it come back)
  // are looked for every kLookAgainSpan. If that fails no GPU can be read until Devices() succeeds:
  // kUnavailable.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  void LeaveAlone(const std::set<std::size_t>& devices) override;

  // The list that is worked with: one of before, for the driver was silent when it was wanted, or
  // that of Devices() with more of what was known of GPUs in trouble.
  void Keep(std::vector<DeviceInfo> devices);

 private:
  ReadResult<base::Unit> List();
  void Place();

  std::unique_ptr<Probe> probe_;
  std::vector<DeviceInfo> kept_;
  std::vector<DeviceInfo> driver_list_;
  std::vector<std::optional<std::size_t>> numbers_;  // the driver's, of each kept one
  std::vector<bool> lost_;                           // its last reading said so
  bool listed_ = false;                              // by the driver, and it stands
  std::optional<base::Time> looked_;
};

}  // namespace carma::gpu
