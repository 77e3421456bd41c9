// The memory of one task on one GPU over time: its peak, and since when that has stood still.
#pragma once

#include <cstdint>
#include <optional>

#include "core/values/task.h"

namespace carma::core {

// What a task is taken to need whose memory has stood still at this peak: 3 % and 300 MiB more.
// Readings once a second miss short peaks, and searches for algorithms differ from run to run.
std::int64_t NeedAfterPlateau(std::int64_t peak_mib);

class Plateau {
 public:
  Plateau() = default;
  // known_mib: what it is known to have held before it is seen here.
  explicit Plateau(std::int64_t known_mib) : peak_mib_(known_mib) {}

  // A sample shows it with so much. True: its memory has risen, by more than 1 % of what it was at
  // the last rise, so that many small steps count too.
  bool See(std::int64_t mib, Time when);
  // A sample may have shown too little: what stands still does so from now on.
  void Doubt(Time when);

  std::int64_t peak_mib() const { return peak_mib_; }
  // Last rise or doubt; empty: nothing has been seen.
  std::optional<Time> since() const { return since_; }
  // It has stood still at least since then.
  bool StandsSince(Time when) const { return since_ && *since_ <= when; }

  friend bool operator==(const Plateau&, const Plateau&) = default;

 private:
  std::int64_t peak_mib_ = 0;
  std::int64_t risen_to_mib_ = 0;
  std::optional<Time> since_;
};

}  // namespace carma::core
