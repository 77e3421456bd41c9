// Finds the server's GPUs and reads them periodically, on a separate thread because the driver may
// hang.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/gpus/seen_processes.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"
#include "gpu/probe.h"

namespace carma::daemon {

struct SamplerOptions {
  std::string state_dir;         // where the known GPUs are stored (known_gpus.h)
  base::Duration period{1'000};  // between two rounds of readings
  // The probe gives up on a GPU after this time (real time). If the probe itself takes 1.5 times as
  // long, the whole driver counts as unresponsive.
  base::Duration probe_timeout{10'000};
  std::vector<std::string> only = {};  // GPUs to use, as in gpu::OnlyNamed; empty for all
  std::function<std::string()> dcgm_trouble = nullptr;  // as in gpu::LoadedProbe
};

class Sampler {
 public:
  // Receives the readings. Called on the loop.
  class Taker {
   public:
    virtual ~Taker() = default;
    // Called once, before LeftAlone() and TakeRound(), with the GPUs that the driver lists and
    // SamplerOptions::only selects. If the driver does not respond, the stored list of GPUs is
    // passed instead. The stored list is not used if SamplerOptions::only is set, because older
    // versions of carmad stored only the GPUs that were selected then.
    virtual void TakeGpus(std::vector<gpu::DeviceInfo> devices) = 0;
    // Returns the GPUs that must not be read.
    virtual std::set<std::size_t> LeftAlone() = 0;
    virtual void TakeRound(gpu::Round round, SeenProcesses seen) = 0;
    // Called when the whole driver does not respond, possibly before TakeGpus().
    virtual void DriverSilent(const gpu::ReadError& why) = 0;
  };

  // clock and probe are shared with a thread that may outlive everything else.
  Sampler(std::shared_ptr<boost::asio::io_context> loop, std::shared_ptr<gpu::Probe> probe,
          std::shared_ptr<base::Clock> clock, SamplerOptions options, Taker& taker);

  void Start() { Discover(); }
  // Calls `call` when the next reading completes or is overdue, but never before this function
  // returns. A reading that is already in progress does not count.
  void AfterNextReading(std::function<void()> call);
  // Why the whole driver does not respond; empty if it responds or its first response is still
  // pending.
  const std::string& driver_trouble() const { return driver_trouble_; }
  // A message about GPUs that the driver does not list even though SamplerOptions::only names them
  // or they were known before the restart. Empty if no GPU is missing.
  const std::string& missing_gpus() const { return missing_gpus_; }

 private:
  using Calls = std::vector<std::function<void()>>;

  void Discover();
  void DiscoverLater();
  void TakeDevices(gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices);
  // Announces the GPUs in the probe's list that SamplerOptions::only selects. Fails if there are
  // none.
  gpu::ReadResult<Unit> Announce(std::vector<gpu::DeviceInfo> devices);
  void Sample();
  void TakeRound(gpu::Round round, SeenProcesses seen);
  // Watches the current call to the probe, and closes all GPUs if it does not return in time.
  // Sampling continues once the call returns.
  std::function<bool()> WatchProbe();
  void Silent(const gpu::ReadError& why);
  void BeginReading();
  void TellReading();

  std::shared_ptr<gpu::Probe> probe_;
  std::shared_ptr<base::Clock> clock_;
  SamplerOptions options_;
  Taker& taker_;
  // The indices of the announced GPUs in the probe's list; empty until they are announced.
  std::vector<std::size_t> own_;
  SeenProcesses seen_;  // in the last round
  std::string driver_trouble_, missing_gpus_;
  bool hung_ = false;  // the current call was reported as hung
  // Callers waiting for the next reading and for the current one.
  Calls next_reading_, this_reading_;
  Alarm next_, reading_limit_;
  BackgroundWorker worker_;
};

}  // namespace carma::daemon
