// Code shared by the simulated driver's functions: finds the server, resolves handles of its GPUs
// and instances, and applies the faults that affect a call.
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
// Returns the error that a fault of the driver or of this whole GPU causes in `function`, or
// kSuccess. Blocks during a hang. Ignores faults that only change readings.
Return FaultReturn(Server& server, std::int32_t gpu, const char* function);

struct Call {
  Return code = kSuccess;
  std::shared_ptr<Server> server = {};
  int gpu = kWholeDriver;  // place number of the GPU or instance
  GpuLook look = {};       // filled by Look
  int Whole() const { return server->WholeGpu(gpu); }
  const GpuIdentity& Identity() const { return server->place(gpu); }
  bool IsInstance() const { return !Identity().parent_uuid.empty(); }
};

// The kinds of handles that a function accepts.
enum class Takes { kGpus, kInstances, kBoth };

Call EnterDriver(const char* function);
Call EnterPlace(const char* function, Device device, Takes takes);
// Every driver function first calls one of these; the second is for functions that take a GPU or
// instance. Inline, so static analysers see that null arguments are rejected. arguments: false if a
// pointer argument of the driver function is null. function: some faults affect only this function.
inline Call Enter(bool arguments, const char* function = __builtin_FUNCTION()) {
  Call call = EnterDriver(function);
  if (call.code == kSuccess && !arguments) call.code = kInvalidArgument;
  return call;
}
inline Call Enter(Device device, bool arguments, Takes takes = Takes::kGpus,
                  const char* function = __builtin_FUNCTION()) {
  return arguments ? EnterPlace(function, device, takes) : Call{.code = kInvalidArgument};
}

// Fills call.look, or sets the call's error.
void Look(Call& call);
// Begins a call that reads one GPU or instance.
inline Call Read(Device device, bool arguments, Takes takes = Takes::kGpus,
                 const char* function = __builtin_FUNCTION()) {
  Call call = Enter(device, arguments, takes, function);
  if (call.code == kSuccess) Look(call);
  return call;
}

Device HandleOf(int place);
// Returns the index in Server::places() of one of the GPU's instances.
std::optional<int> FindInstance(const Call& call, std::uint32_t gpu_instance);

// The number of the instance at this place; kNoValue32 for a whole GPU.
std::uint32_t InstanceNumber(const Server& server, int place);

bool Lies(const Call& call, FaultKind kind);
Return CopyText(const std::string& text, char* target, std::uint32_t size);

}  // namespace carma::simgpu::driver
