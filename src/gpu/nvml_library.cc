#include "gpu/nvml_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace carma::gpu {
namespace {

const char* MissingFunction(const NvmlApi& api) {
  if (!api.init) return "nvmlInit_v2";
  if (!api.count) return "nvmlDeviceGetCount_v2";
  if (!api.by_index) return "nvmlDeviceGetHandleByIndex_v2";
  if (!api.uuid) return "nvmlDeviceGetUUID";
  if (!api.memory_v2 && !api.memory) return "nvmlDeviceGetMemoryInfo";
  return nullptr;
}

}  // namespace

void CloseLibrary::operator()(void* handle) const {
  ::dlclose(handle);
}

Result<NvmlLibrary> LoadNvml(const std::string& library) {
  std::unique_ptr<void, CloseLibrary> handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle) {
    const char* why = ::dlerror();
    return Unavailable("no NVML library: {}", why ? why : library.c_str());
  }
  const NvmlApi api([opened = handle.get()](const char* name) { return ::dlsym(opened, name); });
  if (const char* missing = MissingFunction(api))
    return Unavailable("{} is not NVML: it has no function {}", library, missing);
  return NvmlLibrary{std::move(handle), api};
}

void NvmlSession::ForEachGpu(
    const std::function<void(nvml::Device, const std::string&)>& visit) const {
  std::uint32_t count = 0;
  if (!open_ || api_.count(&count) != nvml::kSuccess) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    char uuid[nvml::kUuidBytes] = {};
    if (api_.by_index(i, &device) == nvml::kSuccess &&
        api_.uuid(device, uuid, sizeof uuid) == nvml::kSuccess) {
      visit(device, {uuid, ::strnlen(uuid, sizeof uuid)});
    }
  }
}

bool MeansAbsent(nvml::Return code) {
  return code == nvml::kNotSupported || code == nvml::kNoPermission ||
         code == nvml::kFunctionNotFound || code == nvml::kNoData ||
         code == nvml::kArgumentVersionMismatch || code == nvml::kDeprecated;
}

bool MeansDriverGone(nvml::Return code) {
  return code == nvml::kUninitialized || code == nvml::kDriverNotLoaded;
}

std::string NvmlText(const NvmlApi& api, nvml::Return code) {
  const char* text = api.error_string ? api.error_string(code) : nullptr;
  return fmt::format("{} (NVML {})", text ? text : "unnamed error", code);
}

ErrorCode NvmlCalls::Judge(nvml::Return code) {
  // A single GPU may return this code even though the driver still serves other GPUs.
  std::uint32_t count = 0;
  if (MeansDriverGone(code) && api.count(&count) != nvml::kSuccess) driver_gone_ = true;
  return code == nvml::kGpuIsLost ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
}

std::unexpected<base::Error> NvmlCalls::Failure(nvml::Return code, const std::string& doing) {
  return Fail(Judge(code), fmt::format("{}: {}", doing, NvmlText(api, code)));
}

std::unexpected<ReadError> NvmlCalls::FailureOf(const std::string& gpu, nvml::Return code,
                                                const std::string& what) {
  std::string text = NvmlText(api, code);
  if (!what.empty()) text = fmt::format("{}: {}", what, text);
  return FailRead(Judge(code), std::move(text), gpu);
}

ReadResult<bool> NvmlCalls::Given(const std::string& gpu, nvml::Return code, const char* what,
                                  Weight weight) {
  if (code == nvml::kSuccess) return true;
  const bool gone = code == nvml::kGpuIsLost || MeansDriverGone(code);
  if (!gone && (weight == Weight::kTells || MeansAbsent(code))) return false;
  return FailureOf(gpu, code, what);
}

}  // namespace carma::gpu
