// Common parts of the simulated driver's functions: they find the server, resolve handles of its
// GPUs and instances, and apply the faults that affect a call.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gpu/nvml_abi.h"
#include "lab/simgpu/state.h"

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace carma::simgpu::driver {

using namespace gpu::nvml;

// Every simulated GPU instance has one compute instance, which covers all of it.
inline constexpr std::uint32_t kOnlyComputeInstance = 0;
inline constexpr std::uint32_t kMaxInstances = 7;

// The driver's state in this process between nvmlInit and nvmlShutdown.
struct Driver {
  std::mutex mutex;
  int users = 0;
  std::shared_ptr<Server> server;  // shared because a call that hangs may outlive a shutdown
};
Driver& TheDriver();

Return FromError(const base::Error& error);
// The error that this function must return because of a fault of the driver or of the GPU as a
// whole, else kSuccess. Blocks while a hang is simulated. Faults in individual values are applied
// where the values are read.
Return FaultReturn(Server& server, std::int32_t gpu, const char* function);

struct Call {
  Return code = kSuccess;
  std::shared_ptr<Server> server;
  int gpu = kWholeDriver;  // place number of the GPU or instance
  int Whole() const { return server->WholeGpu(gpu); }
  const simgpu::GpuIdentity& Identity() const {
    return server->places()[static_cast<std::size_t>(gpu)];
  }
  bool IsInstance() const { return !Identity().parent_uuid.empty(); }
};

// The kinds of handles that a function accepts.
enum class Takes { kGpus, kInstances, kBoth };

// Begins every call that is not about a single GPU.
Call Enter(const char* function);
// Begins every call on one GPU or instance. arguments: false if a pointer argument of the call is
// null. The function is inline so that static analysers see that null arguments are rejected.
Call EnterPlace(const char* function, Device device, Takes takes);
inline Call Enter(const char* function, Device device, bool arguments, Takes takes = Takes::kGpus) {
  return arguments ? EnterPlace(function, device, takes) : Call{.code = kInvalidArgument};
}

Device HandleOf(int place);
// Finds the place number of one of the GPU's instances.
std::optional<int> FindInstance(const Call& call, std::uint32_t gpu_instance);

bool Lies(const Call& call, FaultKind kind);
Return CopyText(const std::string& text, char* target, std::uint32_t size);
// Look and LookCondition return the call's error if the call has already failed.
Return LookNow(const Call& call, GpuLook& look);
inline Return Look(const Call& call, GpuLook& look) {
  return call.code != kSuccess ? call.code : LookNow(call, look);
}
Return LookConditionNow(const Call& call, Condition& condition);
inline Return LookCondition(const Call& call, Condition& condition) {
  return call.code != kSuccess ? call.code : LookConditionNow(call, condition);
}

}  // namespace carma::simgpu::driver
