// NVML in a separate process that can be abandoned: if a driver call for a GPU does not return,
// that GPU is set aside, and a new process that never touches it reads the others.
//
// Reasons: a thread whose call hangs in the kernel cannot be ended, nor can its process, so not
// even a restart of carmad would help; a separate process can be abandoned. NVML opens a GPU only
// when its handle is requested by number, so a new process that leaves one out does not touch it.
// If the driver holds one lock for all GPUs, no call returns, and the whole driver is reported as
// hung. One process, not one per GPU, because each costs memory and opens the driver.
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
  std::chrono::milliseconds patience{10'000};  // real time; a longer call counts as hung
  // A GPU that was set aside is retried after a pause by a separate process; the pause doubles with
  // each failure.
  std::chrono::milliseconds first_pause{30'000};
  std::chrono::milliseconds longest_pause{3'600'000};
};

// Used by one thread.
class GuardedProbe : public Probe {
 public:
  explicit GuardedProbe(GuardOptions options) : options_(std::move(options)) {}

  // Like the NVML probe, but a GPU that is set aside is listed as last known, with the trouble
  // TroubleCause::kHangs. Errors: also kUnavailable if the driver as a whole, or each of its GPUs,
  // does not answer.
  ReadResult<std::vector<DeviceInfo>> Devices() override;
  // kUnavailable for a GPU that is set aside, without waiting, and for all if the driver's list has
  // changed.
  ReadResult<Reading> Read(std::size_t device, base::Time now) override;
  // Also closes these devices, so that they can be reset.
  void LeaveAlone(const std::set<std::size_t>& devices) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Aside {
    std::string why;
    Clock::time_point next_try;
    std::unique_ptr<ReaderProcess> trial;  // null: none in progress
    Clock::time_point trial_until;
  };
  // How long to leave a hung GPU alone.
  struct Caution {
    std::chrono::milliseconds pause;
    Clock::time_point answered;  // again
  };
  struct Place {
    std::uint32_t number = 0;            // NVML's, of the whole GPU
    std::optional<std::size_t> current;  // the device's number in the current reader
  };

  ReadResult<Unit> Open();
  void Take(ReaderListing listing);
  ReadResult<Unit> OpenAgain();
  // again: a reader has already died from this request.
  ReadResult<Reading> ReadWith(std::size_t device, base::Time now, bool again);
  void SetAside(std::uint32_t number, const std::string& why);
  bool AnswersAgain(std::uint32_t number, Aside& aside);
  bool TrialSucceeds(std::uint32_t number, Aside& aside);
  void Answered(std::uint32_t number);
  std::string WhyOf(const NoAnswer& none) const;
  std::set<std::uint32_t> LeftOut() const;

  GuardOptions options_;
  std::unique_ptr<ReaderProcess> reader_;  // null: to be started
  std::optional<ReadError> closed_;        // no reads until Devices() succeeds
  std::vector<DeviceInfo> devices_;
  std::vector<Place> places_;                               // of each device
  std::map<std::uint32_t, std::vector<DeviceInfo>> known_;  // last descriptions, by NVML's number
  std::map<std::uint32_t, Aside> aside_;
  std::map<std::uint32_t, Caution> cautions_;
  std::set<std::uint32_t> alone_;
};

}  // namespace carma::gpu
