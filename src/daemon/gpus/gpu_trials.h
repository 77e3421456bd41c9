// Tries whether CUDA works on a GPU after a task could not initialise it: a broken driver or GPU
// would fail one waiting task after another, but a faulty script must not close a GPU.
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
  // Runs on a worker and returns, in one line, why CUDA programs do not work on that GPU; empty:
  // they do.
  using Try = std::function<std::string(const std::string& uuid)>;
  struct Actions {
    // Called with true when a trial begins (no task may start there), with false when it ends.
    std::function<void(core::GpuIndex, bool held)> hold;
    // Called with the result: why CUDA does not work on the GPU; empty: it works again.
    std::function<void(core::GpuIndex, const std::string& why)> found;
    // The result that is still in force; empty: an administrator has since opened the GPU.
    std::function<std::string(core::GpuIndex)> known;
  };

  GpuTrials(std::shared_ptr<boost::asio::io_context> loop, base::Clock& clock,
            std::vector<std::string> uuids, Try try_cuda, Actions actions);

  // Called when a task could not initialise CUDA on these GPUs. then: called on the loop with what
  // is wrong with one of them; empty: CUDA works there, so the task is at fault.
  void Ask(const std::vector<core::GpuIndex>& gpus, std::function<void(const std::string&)> then);
  // Takes over a GPU that an earlier carmad found broken: it is retried from time to time.
  void Restore(core::GpuIndex gpu);

 private:
  struct Gpu {
    std::unique_ptr<BackgroundWorker> worker;  // null: was never tried
    bool under_way = false;
    bool held = false;                                           // Actions::hold
    std::optional<std::chrono::steady_clock::time_point> works;  // seen then
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

}  // namespace carma::daemon
