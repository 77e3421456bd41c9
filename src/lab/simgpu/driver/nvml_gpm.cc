// GPM calls: mean activity between two samples.
#include <algorithm>
#include <limits>

#include "lab/simgpu/driver/call.h"

using namespace carma;
using namespace carma::simgpu::driver;
using simgpu::FaultKind;
using simgpu::GpuLook;

namespace {

constexpr std::uint32_t kGraphicsUtil = 1;  // percentage of the time in which any kernel ran

// A GPM sample: the integrals of one GPU or instance at one moment.
struct Sample {
  bool taken = false;
  bool nan = false;
  double now_s = 0;
  double sm_s = 0;
  double busy_s = 0;
  double sm_active = 0;
};

Sample& SampleOf(GpmSample sample) {
  return *reinterpret_cast<Sample*>(sample);
}

double SmPercent(const Sample& first, const Sample& second) {
  if (second.nan) return std::numeric_limits<double>::quiet_NaN();
  const double span_s = second.now_s - first.now_s;
  // If no time has passed between the samples, or readings are frozen, the current activity is
  // used.
  const double active = span_s > 0 ? (second.sm_s - first.sm_s) / span_s : second.sm_active;
  return 100 * std::clamp(active, 0.0, 1.0);
}

double BusyPercent(const Sample& first, const Sample& second) {
  const double span_s = second.now_s - first.now_s;
  const double busy = span_s > 0 ? (second.busy_s - first.busy_s) / span_s
                                 : static_cast<double>(second.sm_active > 0);
  return 100 * std::clamp(busy, 0.0, 1.0);
}

void FillMetric(GpmMetric& metric, const Sample& first, const Sample& second) {
  metric.result = kSuccess;
  metric.unit = "%";
  if (metric.metric_id == kGpmSmUtil) {
    metric.value = SmPercent(first, second);
    metric.short_name = "SM_UTIL";
    metric.long_name = "SM activity";
  } else if (metric.metric_id == kGraphicsUtil) {
    metric.value = BusyPercent(first, second);
    metric.short_name = "GRAPHICS_UTIL";
    metric.long_name = "time with a kernel running";
  } else {
    metric = {metric.metric_id, kNotSupported, 0, "", "", ""};
  }
}

Return TakeSample(const Call& call, GpmSample sample) {
  GpuLook look;
  if (const Return code = Look(call, look); code != kSuccess) return code;
  if (!sample) return kInvalidArgument;
  SampleOf(sample) = {true,
                      Lies(call, FaultKind::kNanActivity),
                      look.now_s,
                      look.totals.sm_s,
                      look.totals.busy_s,
                      look.sm_active};
  return kSuccess;
}

}  // namespace

NVML_EXPORT Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  const Call call = Enter("nvmlGpmQueryDeviceSupport", device, support != nullptr);
  if (call.code != kSuccess) return call.code;
  if (support->version != kGpmVersion) return kArgumentVersionMismatch;
  support->supported = 1;
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleAlloc(GpmSample* sample) {
  const Call call = Enter("nvmlGpmSampleAlloc");
  if (call.code != kSuccess) return call.code;
  if (!sample) return kInvalidArgument;
  *sample = reinterpret_cast<GpmSample>(new Sample);
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleFree(GpmSample sample) {
  delete reinterpret_cast<Sample*>(sample);
  return kSuccess;
}

NVML_EXPORT Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  return TakeSample(Enter("nvmlGpmSampleGet", device, sample != nullptr), sample);
}

NVML_EXPORT Return nvmlGpmMigSampleGet(Device device, std::uint32_t gpu_instance,
                                       GpmSample sample) {
  Call call = Enter("nvmlGpmMigSampleGet", device, sample != nullptr);
  if (call.code != kSuccess) return call.code;
  const std::optional<int> place = FindInstance(call, gpu_instance);
  if (!place) return kInvalidArgument;
  call.gpu = *place;
  return TakeSample(call, sample);
}

NVML_EXPORT Return nvmlGpmMetricsGet(GpmMetricsGet* request) {
  if (const Call call = Enter("nvmlGpmMetricsGet"); call.code != kSuccess) return call.code;
  if (!request || !request->first || !request->second) return kInvalidArgument;
  if (request->version != kGpmVersion) return kArgumentVersionMismatch;
  const Sample& first = SampleOf(request->first);
  const Sample& second = SampleOf(request->second);
  if (!first.taken || !second.taken || request->metric_count > kGpmMetricMax)
    return kInvalidArgument;
  for (std::uint32_t i = 0; i < request->metric_count; ++i)
    FillMetric(request->metrics[i], first, second);
  return kSuccess;
}
