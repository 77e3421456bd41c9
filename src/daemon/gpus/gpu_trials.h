// Tests whether CUDA works on a GPU after a task failed to initialise it. Without the test, tasks
// would keep starting and failing on a broken GPU, or a faulty script could get a working GPU
// closed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/values/gpu.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {

// Used only on the loop's thread.
class GpuTrials {
 public:
  // Called on a worker. Returns one line that explains why CUDA programs do not work on the GPU;
  // empty if they work.
  using Try = std::function<std::string(const std::string& uuid)>;
  struct Actions {
    // Called with true when a trial begins, to keep tasks off the GPU, and with false when it ends.
    std::function<void(core::GpuIndex, bool held)> hold;
    // Called with the result of a trial: why CUDA does not work on the GPU, or an empty string if
    // it works again.
    std::function<void(core::GpuIndex, const std::string& why)> found;
    // Returns the last result for the GPU; empty if an administrator has opened the GPU since then.
    std::function<std::string(core::GpuIndex)> known;
  };

  GpuTrials(std::shared_ptr<boost::asio::io_context> loop, base::Clock& clock,
            std::vector<std::string> uuids, Try try_cuda, Actions actions);

  // Called when a task could not initialise CUDA on these GPUs. Calls `then` on the loop with the
  // problem of one of the GPUs, or with an empty string if CUDA works and the task is at fault.
  void Ask(const std::vector<core::GpuIndex>& gpus, std::function<void(const std::string&)> then);
  // Takes over a GPU that an earlier carmad found broken. The trial is repeated periodically.
  void Restore(core::GpuIndex gpu);

 private:
  struct Gpu {
    std::unique_ptr<BackgroundWorker> worker;  // null until the first trial
    bool under_way = false;
    bool held = false;                                           // Actions::hold
    std::optional<std::chrono::steady_clock::time_point> works;  // when CUDA was last known to work
    std::vector<std::function<void(const std::string&)>> waiting;
  };
  void AskOne(core::GpuIndex gpu, std::function<void(const std::string&)> then);
  void TryAll(core::GpuIndex asked);
  void Begin(core::GpuIndex gpu);
  void Take(core::GpuIndex gpu, const std::string& why);
  void TryAgainLater();

  std::shared_ptr<boost::asio::io_context> loop_;
  base::Clock& clock_;
  const std::vector<std::string> uuids_;
  const Try try_;
  const Actions actions_;
  std::map<core::GpuIndex, Gpu> gpus_;
  Alarm again_;
  bool again_set_ = false;
};

// carma-reader (`reader`) creates the context in its own process, because the driver may hang or
// crash.
GpuTrials::Try TryCudaBy(const std::string& reader);

}  // namespace carma::daemon
