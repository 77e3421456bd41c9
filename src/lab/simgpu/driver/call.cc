#include "lab/simgpu/driver/call.h"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

namespace carma::simgpu::driver {
namespace {

constexpr auto kHangPoll = std::chrono::milliseconds(20);

// A GPU's handle is the address of its element in this array, so any other pointer is recognised as
// invalid.
char handles[kMaxPlaces];

std::shared_ptr<Server> TheServer() {
  const std::scoped_lock lock(TheDriver().mutex);
  return TheDriver().server;
}

Return CheckTaken(const Call& call, Takes takes) {
  if (takes == Takes::kGpus && call.IsInstance()) return kNotSupported;
  if (takes == Takes::kInstances && !call.IsInstance()) return kInvalidArgument;
  return kSuccess;
}

}  // namespace

// Never destroyed, because other threads might still call the driver while the process exits. Not
// on the heap, because the library can be unloaded and loaded again.
Driver& TheDriver() {
  alignas(Driver) static std::byte memory[sizeof(Driver)];
  static Driver* const driver = new (memory) Driver;
  return *driver;
}

Device HandleOf(int place) {
  return reinterpret_cast<Device>(&handles[place]);
}

Return FromError(const base::Error& error) {
  if (error.code == ErrorCode::kCorrupt) return kLibRmVersionMismatch;
  return error.code == ErrorCode::kDenied ? kNoPermission : kDriverNotLoaded;
}

Return FaultReturn(Server& server, std::int32_t gpu, const char* function) {
  while (true) {
    const Result<Fault> fault = server.FaultOn(gpu, function);
    if (!fault) return FromError(fault.error());
    if (fault->kind == FaultKind::kVanish) return kDriverNotLoaded;
    if (fault->kind == FaultKind::kLost) return kGpuIsLost;
    if (fault->kind == FaultKind::kError) return fault->code;
    if (fault->kind != FaultKind::kHang) return kSuccess;
    std::this_thread::sleep_for(kHangPoll);
  }
}

Call EnterDriver(const char* function) {
  Call call{.server = TheServer()};
  call.code = call.server ? FaultReturn(*call.server, kWholeDriver, function) : kUninitialized;
  return call;
}

Call EnterPlace(const char* function, Device device, Takes takes) {
  Call call{.server = TheServer()};
  if (!call.server) return {.code = kUninitialized};
  const auto offset =
      reinterpret_cast<std::uintptr_t>(device) - reinterpret_cast<std::uintptr_t>(&handles[0]);
  if (offset >= static_cast<std::size_t>(call.server->place_count()))
    return {.code = kInvalidArgument};
  call.gpu = static_cast<int>(offset);
  call.code = FaultReturn(*call.server, call.Whole(), function);
  if (call.code == kSuccess) call.code = CheckTaken(call, takes);
  return call;
}

void Look(Call& call) {
  const Result<GpuLook> look = call.server->Look(call.gpu);
  call.code = look ? kSuccess : FromError(look.error());
  call.look = look.value_or(GpuLook{});
}

bool Lies(const Call& call, FaultKind kind) {
  const Result<Fault> fault = call.server->FaultOn(call.Whole(), "");
  return fault && fault->kind == kind;
}

Return CopyText(const std::string& text, char* target, std::uint32_t size) {
  if (text.size() + 1 > size) return kInsufficientSize;
  std::memcpy(target, text.c_str(), text.size() + 1);
  return kSuccess;
}

std::uint32_t InstanceNumber(const Server& server, int place) {
  const GpuIdentity& identity = server.place(place);
  return identity.parent_uuid.empty() ? kNoValue32
                                      : static_cast<std::uint32_t>(identity.gpu_instance);
}

std::optional<int> FindInstance(const Call& call, std::uint32_t gpu_instance) {
  for (int place = call.server->gpu_count(); place < call.server->place_count(); ++place) {
    if (call.server->WholeGpu(place) == call.gpu &&
        InstanceNumber(*call.server, place) == gpu_instance) {
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace carma::simgpu::driver
