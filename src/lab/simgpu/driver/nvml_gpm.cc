// GPM calls: mean activity between two samples.
#include <algorithm>
#include <cmath>

#include "lab/simgpu/driver/call.h"

using namespace carma;
using namespace carma::simgpu;
using namespace carma::simgpu::driver;

namespace {

constexpr std::uint32_t kGraphicsUtil = 1;  // percentage of the time in which any kernel ran

// A GPM sample: the readings of one GPU or instance at one moment.
struct Sample {
  bool taken = false;
  bool nan = false;
  GpuLook look;
};

Sample& SampleOf(GpmSample sample) {
  return *reinterpret_cast<Sample*>(sample);
}

// The mean of a quantity between two samples, in percent; the current value if no time has passed
// between them or readings are frozen.
double MeanPercent(const GpuLook& first, const GpuLook& second, double Totals::*integral,
                   double now) {
  const double span_s = second.now_s - first.now_s;
  const double sum = second.totals.*integral - first.totals.*integral;
  return 100 * std::clamp(span_s > 0 ? sum / span_s : now, 0.0, 1.0);
}

void FillMetric(GpmMetric& metric, const Sample& first, const Sample& second) {
  const double active = second.look.sm_active;
  if (metric.metric_id == kGpmSmUtil) {
    const double percent = MeanPercent(first.look, second.look, &Totals::sm_s, active);
    metric = {kGpmSmUtil, kSuccess, second.nan ? NAN : percent, "SM_UTIL", "SM activity", "%"};
  } else if (metric.metric_id == kGraphicsUtil) {
    const double percent =
        MeanPercent(first.look, second.look, &Totals::busy_s, active > 0 ? 1 : 0);
    metric = {kGraphicsUtil, kSuccess, percent, "GRAPHICS_UTIL", "time with a kernel running", "%"};
  } else {
    metric = {metric.metric_id, kNotSupported, 0, "", "", ""};
  }
}

Return TakeSample(const Call& call, GpmSample sample) {
  if (call.code != kSuccess) return call.code;
  SampleOf(sample) = {true, Lies(call, FaultKind::kNanActivity), call.look};
  return kSuccess;
}

}  // namespace

NVML_EXPORT Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  const Call call = Enter(device, support != nullptr);
  if (call.code != kSuccess) return call.code;
  if (support->version != kGpmVersion) return kArgumentVersionMismatch;
  support->supported = 1;
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleAlloc(GpmSample* sample) {
  const Call call = Enter(sample != nullptr);
  if (call.code == kSuccess) *sample = reinterpret_cast<GpmSample>(new Sample);
  return call.code;
}

NVML_EXPORT Return nvmlGpmSampleFree(GpmSample sample) {
  delete reinterpret_cast<Sample*>(sample);
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  return TakeSample(Read(device, sample != nullptr), sample);
}

NVML_EXPORT Return nvmlGpmMigSampleGet(Device device, std::uint32_t gpu_instance,
                                       GpmSample sample) {
  Call call = Enter(device, sample != nullptr);
  if (call.code != kSuccess) return call.code;
  const std::optional<int> place = FindInstance(call, gpu_instance);
  if (!place) return kInvalidArgument;
  call.gpu = *place;
  Look(call);
  return TakeSample(call, sample);
}

NVML_EXPORT Return nvmlGpmMetricsGet(GpmMetricsGet* request) {
  const Call call = Enter(request && request->first && request->second);
  if (call.code != kSuccess) return call.code;
  if (request->version != kGpmVersion) return kArgumentVersionMismatch;
  const Sample& first = SampleOf(request->first);
  const Sample& second = SampleOf(request->second);
  if (!first.taken || !second.taken || request->metric_count > kGpmMetricMax)
    return kInvalidArgument;
  for (std::uint32_t i = 0; i < request->metric_count; ++i)
    FillMetric(request->metrics[i], first, second);
  return kSuccess;
}
