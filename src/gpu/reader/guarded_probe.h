// NVML behind a process that can be given up: a GPU whose driver call does not come back is set
// aside, and the others are read on by a new process that never touches it.
//
// Why like this: a thread in a call that hangs in the kernel cannot be ended, and the process it is
// of cannot end either, so that not even the daemon's restart would help. A process can be left
// behind. NVML opens a GPU when its handle is asked for by number, not before, so a new process
// that leaves one out has nothing to do with it; where the driver holds one lock for all GPUs
// nothing answers, and that is said of the driver as a whole. One process, not one per GPU, because
// each costs its memory and its own opening of the driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/probe.h"
#include "gpu/reader/reader_process.h"

namespace carma::gpu {

struct GuardOptions {
  ReaderProgram reader;
  std::chrono::milliseconds patience{10'000};  // real time: a call that takes longer hangs
  // A GPU that was set aside is tried after a pause, beside the others, by a process of its own;
  // the pause doubles with each failure.
  std::chrono::milliseconds first_pause{30'000};
  std::chrono::milliseconds longest_pause{3'600'000};
};

// Of one thread.
class GuardedProbe : public Probe {
 public:
  explicit GuardedProbe(GuardOptions options) : options_(std::move(options)) {}

  // As the NVML probe; a GPU that is set aside is listed as it was known before, with the trouble
  // TroubleCause::kHangs. Errors: also kUnavailable if the driver as a whole, or each of its GPUs,
  // does not answer.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // kUnavailable for a GPU that is set aside, without waiting, and for all if the driver's list has
  // changed.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  // They are not held open either, so that they can be reset.
  void LeaveAlone(const std::set<std::size_t>& devices) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Aside {
    std::string why;
    Clock::time_point next_try;
    std::unique_ptr<ReaderProcess> trial;  // null: none is under way
    Clock::time_point trial_until;
  };
  // How long to leave a GPU in peace that has hung.
  struct Caution {
    std::chrono::milliseconds pause;
    Clock::time_point answered;  // again
  };
  struct Place {
    std::uint32_t number = 0;            // NVML's, of the whole GPU
    std::optional<std::size_t> current;  // the present reader's number of the device
  };

  ReadResult<base::Unit> Open();
  void Take(ReaderListing listing);
  ReadResult<base::Unit> OpenAgain();
  // again: a reader has already ended at this question.
  ReadResult<Reading> ReadWith(std::size_t device, base::Time now, bool again);
  void SetAside(std::uint32_t number, const std::string& why);
  bool AnswersAgain(std::uint32_t number, Aside& aside);
  bool TrialSucceeds(std::uint32_t number, Aside& aside);
  void Answered(std::uint32_t number);
  std::string WhyOf(const NoAnswer& none) const;
  std::set<std::uint32_t> LeftOut() const;

  GuardOptions options_;
  std::unique_ptr<ReaderProcess> reader_;  // null: to be started
  std::optional<ReadError> closed_;        // nothing is read until Devices() has succeeded
  std::vector<DeviceInfo> devices_;
  std::vector<Place> places_;                               // of each device
  std::map<std::uint32_t, std::vector<DeviceInfo>> known_;  // as last described, by NVML's number
  std::map<std::uint32_t, Aside> aside_;
  std::map<std::uint32_t, Caution> cautions_;
  std::set<std::uint32_t> alone_;
};

}  // namespace carma::gpu
