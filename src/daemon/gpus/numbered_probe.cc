#include "daemon/gpus/numbered_probe.h"

#include <string>
#include <utility>

#include "base/log.h"

namespace carma::daemon {
namespace {

class LoggingProbe : public NumberedProbe {
 public:
  explicit LoggingProbe(gpu::LoadedProbe loaded) : loaded_(std::move(loaded)) {}

  gpu::ReadResult<std::vector<gpu::DeviceInfo>> Devices() override {
    gpu::ReadResult<std::vector<gpu::DeviceInfo>> devices = loaded_.probe->Devices();
    const std::string trouble = loaded_.dcgm_trouble ? loaded_.dcgm_trouble() : "";
    if (devices && !trouble.empty()) base::LogWarn("no_sm_activity", {{"why", trouble}});
    return devices;
  }
  gpu::ReadResult<gpu::Reading> Read(std::size_t device, base::Time now) override {
    return loaded_.probe->Read(device, now);
  }
  void LeaveAlone(const std::set<std::size_t>& devices) override {
    loaded_.probe->LeaveAlone(devices);
  }
  void Keep(std::vector<gpu::DeviceInfo> devices) override {
    loaded_.probe->Keep(std::move(devices));
  }

 private:
  gpu::LoadedProbe loaded_;
};

}  // namespace

std::shared_ptr<NumberedProbe> MakeNumberedProbe(const gpu::ProbeOptions& options) {
  return std::make_shared<LoggingProbe>(gpu::LoadProbe(options));
}

}  // namespace carma::daemon
