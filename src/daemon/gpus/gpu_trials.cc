#include "daemon/gpus/gpu_trials.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gpu/cuda_context.h"

namespace carma::daemon {
namespace {

// A task that fails within this (real) time after a successful trial is itself at fault.
constexpr auto kGoodFor = std::chrono::seconds(60);
// Interval between trials of a GPU on which CUDA does not work.
constexpr base::Duration kTryAgain{60'000};
constexpr std::chrono::nanoseconds kLeastPause = std::chrono::milliseconds(500);
constexpr std::chrono::seconds kCudaPatience{15};  // for creating a CUDA context on one GPU

}  // namespace

GpuTrials::Try TryCudaBy(const std::string& reader) {
  return [reader](const std::string& uuid) -> std::string {
    const auto trouble = gpu::TryContext(
        uuid, {.holder = {reader, gpu::kHoldContextWord}, .patience = kCudaPatience});
    return trouble ? trouble->text : "";
  };
}

GpuTrials::GpuTrials(std::shared_ptr<boost::asio::io_context> loop, base::Clock& clock,
                     std::vector<std::string> uuids, Try try_cuda, Actions actions)
    : loop_(std::move(loop)),
      clock_(clock),
      uuids_(std::move(uuids)),
      try_(std::move(try_cuda)),
      actions_(std::move(actions)),
      again_(*loop_) {}

void GpuTrials::Ask(const std::vector<core::GpuIndex>& gpus,
                    std::function<void(const std::string&)> then) {
  struct Open {
    std::size_t missing = 0;
    std::string why;
    std::function<void(const std::string&)> then;
  };
  auto open = std::make_shared<Open>(Open{gpus.size(), "", std::move(then)});
  for (const core::GpuIndex gpu : gpus) {
    AskOne(gpu, [open](const std::string& why) {
      if (open->why.empty()) open->why = why;
      if (--open->missing == 0) open->then(open->why);
    });
  }
}

void GpuTrials::AskOne(core::GpuIndex index, std::function<void(const std::string&)> then) {
  if (core::Number(index) >= uuids_.size()) return then("");
  if (const std::string why = actions_.known(index); !why.empty()) return then(why);
  Gpu& gpu = gpus_[index];
  if (gpu.works && std::chrono::steady_clock::now() - *gpu.works < kGoodFor) return then("");
  gpu.waiting.push_back(std::move(then));
  if (!gpu.under_way) TryAll(index);
}

// Tests all GPUs, because a broken driver usually affects all of them. Otherwise tasks would start
// and fail on the other GPUs in the meantime.
void GpuTrials::TryAll(core::GpuIndex asked) {
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < uuids_.size(); ++i) {
    const auto index = static_cast<core::GpuIndex>(i);
    Gpu& gpu = gpus_[index];
    const bool known = !actions_.known(index).empty() || (gpu.works && now - *gpu.works < kGoodFor);
    if (gpu.under_way || (known && index != asked)) continue;
    gpu.held = true;
    actions_.hold(index, true);
    Begin(index);
  }
}

void GpuTrials::Restore(core::GpuIndex gpu) {
  gpus_[gpu];
  TryAgainLater();
}

void GpuTrials::Begin(core::GpuIndex index) {
  Gpu& gpu = gpus_[index];
  gpu.under_way = true;
  if (!gpu.worker)
    gpu.worker = std::make_unique<BackgroundWorker>(loop_, BackgroundWorker::AtEnd::kLeave);
  gpu.worker->Ask([try_cuda = try_, uuid = uuids_[core::Number(index)]] { return try_cuda(uuid); },
                  [this, index](const std::string& why) { Take(index, why); });
}

void GpuTrials::Take(core::GpuIndex index, const std::string& why) {
  Gpu& gpu = gpus_[index];
  gpu.under_way = false;
  base::LogWarn("cuda_tried", {{"gpu", index}, {"trouble", why.empty() ? "none" : why}});
  if (why.empty()) {
    gpu.works = std::chrono::steady_clock::now();
  } else {
    gpu.works.reset();
  }
  actions_.found(index, why);
  for (const auto& then : std::exchange(gpu.waiting, {})) then(why);
  if (std::exchange(gpu.held, false)) actions_.hold(index, false);
  if (!why.empty()) TryAgainLater();
}

void GpuTrials::TryAgainLater() {
  if (std::exchange(again_set_, true)) return;
  again_.Set(std::max(clock_.RealSpan(kTryAgain), kLeastPause), [this] {
    again_set_ = false;
    for (auto& [index, gpu] : gpus_) {
      if (actions_.known(index).empty()) continue;
      if (!gpu.under_way) Begin(index);
      TryAgainLater();
    }
  });
}

}  // namespace carma::daemon
