// Finds the server's GPUs and reads them again and again, on a thread that the driver may hang.
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
  // Real time that the probe takes to give up a GPU. One that is silent for half as long again is
  // silent as a whole.
  base::Duration probe_timeout{10'000};
  std::vector<std::string> only = {};  // as gpu::OnlyNamed has them; empty: all GPUs
};

class Sampler {
 public:
  // Who takes what was seen. Called on the loop.
  class Taker {
   public:
    virtual ~Taker() = default;
    // Once, first: the GPUs as the driver lists them, or as they are known from before if it is
    // silent and all of them are ours: an earlier daemon of the same books may have had others.
    virtual void TakeGpus(std::vector<gpu::DeviceInfo> devices) = 0;
    // GPUs that are not to be read.
    virtual std::set<std::size_t> LeftAlone() = 0;
    virtual void TakeRound(gpu::Round round) = 0;
    // The driver as a whole does not answer. May come before TakeGpus().
    virtual void DriverSilent(const gpu::ReadError& why) = 0;
  };

  // clock: shared with a thread that may outlive everything else, as the probe.
  Sampler(std::shared_ptr<boost::asio::io_context> loop, std::shared_ptr<NumberedProbe> probe,
          std::shared_ptr<base::Clock> clock, SamplerOptions options, Taker& taker);

  void Start();
  // Calls, later, once a reading that begins after now has been taken, or is overdue.
  void AfterNextReading(std::function<void()> call);
  // Why the driver as a whole does not answer; empty: it does, or is being asked for the first
  // time.
  const std::string& driver_trouble() const { return driver_trouble_; }

 private:
  using Calls = std::vector<std::function<void()>>;

  void Discover();
  void DiscoverLater();
  void TakeDevices(gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices);
  // Of the driver's first list.
  gpu::ReadResult<std::vector<gpu::DeviceInfo>> Own(std::vector<gpu::DeviceInfo> devices) const;
  void Announce(std::vector<gpu::DeviceInfo> devices);
  void Sample();
  void TakeRound(gpu::Round round);
  // A call that does not come back closes the GPUs; when it does come back, sampling simply goes
  // on.
  std::function<bool()> WatchProbe();
  void Silent(const gpu::ReadError& why);
  void BeginReading();
  void TellReading();

  std::shared_ptr<NumberedProbe> probe_;
  std::shared_ptr<base::Clock> clock_;
  SamplerOptions options_;
  Taker& taker_;
  std::size_t gpus_ = 0;  // 0: none announced yet
  std::string driver_trouble_;
  bool hung_ = false;  // the call that is under way has been told of
  // Calls that wait for a reading which has not begun, and for the one that is being taken.
  Calls next_reading_, this_reading_;
  Alarm next_, reading_limit_;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
