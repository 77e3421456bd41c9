// Finds the server's GPUs and reads them periodically, on a thread, because the driver may hang.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/gpus/numbered_probe.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

struct SamplerOptions {
  std::string state_dir;         // where known GPUs are kept (known_gpus.h)
  base::Duration period{1'000};  // between two rounds of readings
  // Real time after which the probe gives up on a GPU. If it does not answer for half as long
  // again, the whole driver counts as silent.
  base::Duration probe_timeout{10'000};
  std::vector<std::string> only = {};  // as in gpu::OnlyNamed; empty: all GPUs
};

class Sampler {
 public:
  // Receives the readings. Called on the loop.
  class Taker {
   public:
    virtual ~Taker() = default;
    // Called once, before the other calls, with the GPUs that the driver lists. If the driver is
    // silent, it gets the stored GPUs, provided that all of them are ours: an earlier carmad on
    // this state folder may have managed others.
    virtual void TakeGpus(std::vector<gpu::DeviceInfo> devices) = 0;
    // GPUs that must not be read.
    virtual std::set<std::size_t> LeftAlone() = 0;
    virtual void TakeRound(gpu::Round round) = 0;
    // The driver as a whole does not answer. May come before TakeGpus().
    virtual void DriverSilent(const gpu::ReadError& why) = 0;
  };

  // clock, probe: shared with a thread that may outlive everything else.
  Sampler(std::shared_ptr<boost::asio::io_context> loop, std::shared_ptr<NumberedProbe> probe,
          std::shared_ptr<base::Clock> clock, SamplerOptions options, Taker& taker);

  void Start();
  // Calls back later, when a reading that begins after now has been taken or is overdue.
  void AfterNextReading(std::function<void()> call);
  // Why the driver as a whole does not answer; empty: it does, or its first answer is pending.
  const std::string& driver_trouble() const { return driver_trouble_; }
  // A sentence about GPUs that the driver did not list, although SamplerOptions::only names them or
  // they existed before the restart; empty: none are missing.
  const std::string& missing_gpus() const { return missing_gpus_; }

 private:
  using Calls = std::vector<std::function<void()>>;

  void Discover();
  void DiscoverLater();
  void TakeDevices(gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices);
  // The GPUs of the driver's first list that are ours.
  gpu::ReadResult<std::vector<gpu::DeviceInfo>> Own(std::vector<gpu::DeviceInfo> devices);
  void Announce(std::vector<gpu::DeviceInfo> devices);
  void Sample();
  void TakeRound(gpu::Round round);
  // A call that does not return closes the GPUs; if it returns later, sampling continues.
  std::function<bool()> WatchProbe();
  void Silent(const gpu::ReadError& why);
  void BeginReading();
  void TellReading();

  std::shared_ptr<NumberedProbe> probe_;
  std::shared_ptr<base::Clock> clock_;
  SamplerOptions options_;
  Taker& taker_;
  std::size_t gpus_ = 0;  // 0: none announced yet
  std::string driver_trouble_, missing_gpus_;
  bool hung_ = false;  // the current call was reported as hung
  // Callers that wait for a reading that has not begun, and for the current one.
  Calls next_reading_, this_reading_;
  Alarm next_, reading_limit_;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
