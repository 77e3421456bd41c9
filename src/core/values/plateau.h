// The memory of one task on one GPU over time: its peak, and since when it has been stable.
#pragma once

#include <cstdint>
#include <optional>

#include "core/values/ids.h"

namespace carma::core {

// Assumed need of a task on a plateau with this peak: 3 % and 300 MiB more, because readings once a
// second miss short peaks, and searches for algorithms differ between runs.
std::int64_t NeedAfterPlateau(std::int64_t peak_mib);

class Plateau {
 public:
  Plateau() = default;
  // known_mib: memory it is known to have held before the first sample.
  explicit Plateau(std::int64_t known_mib) : peak_mib_(known_mib) {}

  // Records a sample. True: its memory has risen by more than 1 % since the last rise, so that many
  // small steps count too.
  bool See(std::int64_t mib, Time when);
  // Called when a sample may have shown too little memory: the plateau begins again now.
  void Doubt(Time when);

  std::int64_t peak_mib() const { return peak_mib_; }
  // Last rise or doubt; empty: nothing has been seen.
  std::optional<Time> since() const { return since_; }
  // Whether it has been stable at least since then.
  bool StandsSince(Time when) const { return since_ && *since_ <= when; }

  friend bool operator==(const Plateau&, const Plateau&) = default;

 private:
  std::int64_t peak_mib_ = 0;
  std::int64_t risen_to_mib_ = 0;
  std::optional<Time> since_;
};

}  // namespace carma::core
