#include "daemon/gpus/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "daemon/gpus/known_gpus.h"
#include "gpu/own_devices.h"

namespace carma::daemon {
namespace {

constexpr std::chrono::nanoseconds kDiscoverRetry = std::chrono::seconds(10);
constexpr auto kReadingLimit = std::chrono::seconds(2);  // added to the sampling period

}  // namespace

Sampler::Sampler(std::shared_ptr<boost::asio::io_context> loop, std::shared_ptr<gpu::Probe> probe,
                 std::shared_ptr<base::Clock> clock, SamplerOptions options, Taker& taker)
    : probe_(std::move(probe)),
      clock_(std::move(clock)),
      options_(std::move(options)),
      taker_(taker),
      next_(*loop),
      reading_limit_(*loop),
      worker_(loop, BackgroundWorker::AtEnd::kLeave) {}

void Sampler::Discover() {
  worker_.Ask(
      [probe = probe_, dcgm_trouble = options_.dcgm_trouble] {
        gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices = probe->Devices();
        const std::string trouble = dcgm_trouble ? dcgm_trouble() : "";
        if (devices && !trouble.empty()) base::LogWarn("no_sm_activity", {{"why", trouble}});
        return devices;
      },
      [this, first = WatchProbe()](gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices) {
        first();
        TakeDevices(std::move(devices));
      });
}

// Waits before retrying, because the call may take a long time if the driver is missing.
void Sampler::DiscoverLater() {
  next_.Set(std::min(kDiscoverRetry, 10 * clock_->RealSpan(options_.period)),
            [this] { Discover(); });
}

void Sampler::TakeDevices(gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices) {
  hung_ = false;
  if (devices && devices->empty()) devices = Unavailable("the driver lists no GPUs");
  // A GPU that hangs gets its UUID here, so daemon.gpus is applied only afterwards.
  if (devices) devices = Recognised(*devices, KnownGpus(options_.state_dir));
  if (devices && own_.empty()) {
    if (const gpu::ReadResult<Unit> announced = Announce(*devices); !announced)
      devices = std::unexpected(announced.error());
  }
  if (!devices) {
    const std::string why = devices.error().Sentence();
    if (driver_trouble_ != why) base::LogWarn("no_driver", {{"why", why}});
    Silent(devices.error());
    return DiscoverLater();
  }
  driver_trouble_.clear();
  KeepKnownGpus(options_.state_dir, *devices);
  Sample();
}

gpu::ReadResult<Unit> Sampler::Announce(std::vector<gpu::DeviceInfo> devices) {
  const gpu::OwnDevices known = gpu::OnlyNamed(KnownGpus(options_.state_dir), options_.only);
  const std::vector<std::string> gone = NoLongerListed(known.devices, devices);
  if (!gone.empty()) {
    missing_gpus_ =
        "the driver has not listed these GPUs since carmad restarted: " + base::Join(gone, ", ");
    base::LogWarn("gpus_gone", {{"gpus", base::Join(gone, ", ")}});
  }
  gpu::OwnDevices own = gpu::OnlyNamed(devices, options_.only);
  if (!own.unknown.empty()) {
    std::string why = fmt::format("daemon.gpus names {}, which the driver does not list",
                                  base::Join(own.unknown, ", "));
    if (own.devices.empty()) return Unavailable(why);
    why += "; restart carmad once it does";
    base::LogWarn("gpus_not_there", {{"why", why}});
    missing_gpus_ += (missing_gpus_.empty() ? "" : "; ") + why;
  }
  own_ = std::move(own.indices);
  // The probe keeps the whole list, because it identifies a hanging GPU by its number in that list.
  // Keep() runs on the reading thread, because the probe may currently be in a driver call.
  worker_.Tell([probe = probe_, devices = std::move(devices)] { probe->Keep(devices); });
  taker_.TakeGpus(std::move(own.devices));
  return Unit{};
}

// If the driver does not respond at startup, the stored list of GPUs is used. All of these GPUs are
// closed, but tasks from an earlier run can still be taken over.
void Sampler::Silent(const gpu::ReadError& why) {
  driver_trouble_ = why.Sentence();
  if (own_.empty() && options_.only.empty()) {
    std::vector<gpu::DeviceInfo> known = KnownGpus(options_.state_dir);
    if (!known.empty()) (void)Announce(std::move(known));
  }
  taker_.DriverSilent(why);
}

std::function<bool()> Sampler::WatchProbe() {
  // The limit gives the probe enough time to give up on one hanging GPU and read the others.
  const base::Duration limit = options_.probe_timeout * 3 / 2;
  return worker_.Within(limit, [this, limit] {
    hung_ = true;
    const std::string why =
        fmt::format("the driver has not answered for more than {}", base::FormatSpan(limit));
    base::LogWarn("driver_hangs", {{"why", why}});
    Silent({ErrorCode::kUnavailable, why});
  });
}

void Sampler::Sample() {
  BeginReading();
  worker_.Ask(
      [probe = probe_, clock = clock_, wanted = worker_.wanted(), own = own_,
       alone = taker_.LeftAlone(), before = seen_] {
        std::set<std::size_t> left_alone;
        for (const std::size_t i : alone) left_alone.insert(own.at(i));
        probe->LeaveAlone(left_alone);
        gpu::Round round(own.size());
        for (std::size_t i = 0; i < own.size() && *wanted; ++i) {
          if (!alone.contains(i)) round[i] = probe->Read(own[i], clock->Now());
        }
        SeenProcesses seen = SeeProcesses(round, before);
        return std::pair(std::move(round), std::move(seen));
      },
      [this, first = WatchProbe()](std::pair<gpu::Round, SeenProcesses> read) {
        first();
        TakeRound(std::move(read.first), std::move(read.second));
      });
}

void Sampler::TakeRound(gpu::Round round, SeenProcesses seen) {
  if (std::exchange(hung_, false)) base::LogInfo("driver_answers_again");
  driver_trouble_.clear();
  const auto failed = [](const auto& answer) { return answer && !answer->has_value(); };
  const auto served = [](const auto& answer) { return answer && answer->has_value(); };
  const bool all_failed = std::ranges::any_of(round, failed) && std::ranges::none_of(round, served);
  seen_ = seen;
  taker_.TakeRound(std::move(round), std::move(seen));
  TellReading();
  // If all GPUs failed, the library may have lost its connection to the driver, so the GPUs are
  // listed again.
  if (all_failed) return DiscoverLater();
  next_.Set(clock_->RealSpan(options_.period), [this] { Sample(); });
}

// ---- callers waiting for a reading ----

void Sampler::AfterNextReading(std::function<void()> call) {
  if (next_reading_.empty() && this_reading_.empty()) {
    // The callers are handling ended tasks, which must not wait for a hanging driver.
    reading_limit_.Set(kReadingLimit + clock_->RealSpan(options_.period), [this] {
      BeginReading();
      TellReading();
    });
  }
  next_reading_.push_back(std::move(call));
}

void Sampler::BeginReading() {
  std::ranges::move(std::exchange(next_reading_, {}), std::back_inserter(this_reading_));
}

void Sampler::TellReading() {
  for (const std::function<void()>& call : std::exchange(this_reading_, {})) call();
}

}  // namespace carma::daemon
