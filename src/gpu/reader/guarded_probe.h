// Runs NVML in a separate process. If a driver call for a GPU does not return, that GPU is set
// aside, and a new process reads the others without touching it.
//
// If a call hangs in the kernel, neither its thread nor its process can be killed, so not even
// restarting carmad would help. A separate process, by contrast, can be abandoned. NVML opens a GPU
// only when its handle is requested by number, so a new process does not touch the GPUs that it
// skips. If the driver holds one lock for all GPUs, no call returns, and the whole driver is
// reported as hung. All GPUs share one process, because each process uses memory and opens the
// driver.
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
  std::chrono::milliseconds patience{10'000};  // real time after which a call counts as hung
  // How long a GPU is set aside before a separate process tries it again. The pause doubles with
  // each failure.
  std::chrono::milliseconds first_pause{30'000};
  std::chrono::milliseconds longest_pause{3'600'000};
};

// For use from a single thread.
class GuardedProbe : public Probe {
 public:
  explicit GuardedProbe(GuardOptions options) : options_(std::move(options)) {}

  // Like the NVML probe, but a GPU that is set aside is listed with its last known description and
  // TroubleCause::kHangs, and tried again as in Read(). Also returns kUnavailable if neither the
  // driver nor any of its GPUs responds.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // Returns kUnavailable immediately for a GPU that is set aside, and kConflict for all GPUs if the
  // driver's list has changed.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  // Also closes these devices in the driver so that they can be reset.
  void LeaveAlone(const std::set<std::size_t>& devices) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Aside {
    std::string why;
    Clock::time_point next_try;
    std::unique_ptr<ReaderProcess> trial;  // null: no trial in progress
    Clock::time_point trial_until;
  };
  // How long to leave a hung GPU alone.
  struct Caution {
    std::chrono::milliseconds pause;
    Clock::time_point answered;  // when the GPU answered again
  };
  struct Place {
    std::uint32_t number = 0;            // NVML's number for the whole GPU
    std::optional<std::size_t> current;  // the device's number in the current reader
  };

  ReadResult<Unit> Open();
  void Take(ReaderListing listing);
  ReadResult<Unit> OpenAgain();
  // again: true if this request has already caused one reader to exit.
  ReadResult<Reading> ReadWith(std::size_t device, base::Time now, bool again);
  void SetAside(std::uint32_t number, const std::string& why);
  bool AnswersAgain(std::uint32_t number, Aside& aside);
  bool TrialSucceeds(std::uint32_t number, Aside& aside);
  void Answered(std::uint32_t number);
  std::string WhyOf(const NoAnswer& none) const;
  std::set<std::uint32_t> LeftOut() const;

  GuardOptions options_;
  std::unique_ptr<ReaderProcess> reader_;  // null: not started yet
  std::optional<ReadError> closed_;        // if set, no reads until Devices() succeeds
  std::vector<DeviceInfo> devices_;
  std::vector<Place> places_;                               // by device
  std::map<std::uint32_t, std::vector<DeviceInfo>> known_;  // last descriptions, by NVML's number
  std::map<std::uint32_t, Aside> aside_;
  std::map<std::uint32_t, Caution> cautions_;
  std::set<std::uint32_t> alone_;
};

}  // namespace carma::gpu
