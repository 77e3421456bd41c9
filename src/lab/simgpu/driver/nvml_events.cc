// NVML's event functions, with which the driver reports Xids without being polled.
#include <algorithm>
#include <limits>
#include <vector>

#include "base/clock.h"
#include "lab/simgpu/driver/call.h"

using namespace carma;
using namespace carma::simgpu;
using namespace carma::simgpu::driver;

namespace {

// The events that a set waits for. As with NVML, one set must not be used by several threads at
// once.
struct Events {
  std::vector<int> gpus;       // whole GPUs
  std::uint64_t next_xid = 0;  // number of the first event that the set has not returned
};

Events& EventsOf(EventSet set) {
  return *reinterpret_cast<Events*>(set);
}

// Finds the next event that the set waits for. Returns kTimeout if there is none yet.
Return NextEvent(Server& server, Events& events, EventData& event) {
  const auto xids = server.XidsFrom(events.next_xid);
  if (!xids) return FromError(xids.error());
  std::uint64_t number = xids->count - xids->events.size();
  for (const XidEvent& xid : xids->events) {
    events.next_xid = ++number;
    const int whole = server.WholeGpu(xid.gpu);
    if (std::ranges::find(events.gpus, whole) == events.gpus.end()) continue;
    event = {HandleOf(whole), kEventXidCritical, static_cast<std::uint64_t>(xid.xid),
             InstanceNumber(server, xid.gpu), kNoValue32};
    return kSuccess;
  }
  events.next_xid = xids->count;
  return kTimeout;
}

}  // namespace

NVML_EXPORT Return nvmlEventSetCreate(EventSet* set) {
  const Call call = Enter(set != nullptr);
  if (call.code != kSuccess) return call.code;
  // Events older than the set are not returned.
  const auto xids = call.server->XidsFrom(std::numeric_limits<std::uint64_t>::max());
  if (!xids) return FromError(xids.error());
  *set = reinterpret_cast<EventSet>(new Events{{}, xids->count});
  return kSuccess;
}

NVML_EXPORT Return nvmlEventSetFree(EventSet set) {
  delete reinterpret_cast<Events*>(set);
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceRegisterEvents(Device device, std::uint64_t types, EventSet set) {
  const Call call = Enter(device, set != nullptr);
  if (call.code != kSuccess) return call.code;
  if ((types & ~kEventXidCritical) != 0) return kNotSupported;
  EventsOf(set).gpus.push_back(call.gpu);
  return kSuccess;
}

NVML_EXPORT Return nvmlEventSetWait_v2(EventSet set, EventData* event, std::uint32_t timeout_ms) {
  const Call call = Enter(set && event);
  if (call.code != kSuccess) return call.code;
  const std::int64_t until_ns = base::BootTimeNs() + std::int64_t{timeout_ms} * 1'000'000;
  while (true) {
    const std::uint32_t generation = call.server->Generation();
    const Return code = NextEvent(*call.server, EventsOf(set), *event);
    const std::int64_t left_ns = until_ns - base::BootTimeNs();
    if (code != kTimeout || left_ns <= 0) return code;
    const double left_s = static_cast<double>(left_ns) / 1e9 * call.server->clock().time_scale;
    call.server->Wait(generation, call.server->Now() + left_s);
  }
}
