// Tracks the memory of one task on one GPU: its peak, and how long it has been stable.
#pragma once

#include <cstdint>
#include <optional>

#include "core/values/ids.h"

namespace carma::core {

// Returns how much memory to promise a task that is on a plateau: its peak plus 3 % plus 300 MiB.
// The allowance covers peaks too short for samples taken once a second, and algorithm searches
// (cuDNN), which differ between runs.
std::int64_t NeedAfterPlateau(std::int64_t peak_mib);

class Plateau {
 public:
  Plateau() = default;
  // known_mib: memory that the task is known to have held before the first sample.
  explicit Plateau(std::int64_t known_mib) : peak_mib_(known_mib) {}

  // Records a sample. Returns true if memory has risen by more than 1 % since the last recorded
  // rise, so even small steps add up to a rise.
  bool See(std::int64_t mib, Time when);
  // Restarts the plateau at `when`, because a sample might have shown too little memory.
  void Doubt(Time when);

  std::int64_t peak_mib() const { return peak_mib_; }
  // Time of the last rise or doubtful sample; empty if no sample has been recorded.
  std::optional<Time> since() const { return since_; }
  // True if memory has been stable at least since `when`.
  bool StandsSince(Time when) const { return since_ && *since_ <= when; }

  friend bool operator==(const Plateau&, const Plateau&) = default;

 private:
  std::int64_t peak_mib_ = 0;
  std::int64_t risen_to_mib_ = 0;
  std::optional<Time> since_;
};

}  // namespace carma::core
