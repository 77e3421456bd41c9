// Fake CUDA driver for the tests of cuda_context.cc, loaded by name in a child process like the
// real one. CARMA_FAKE_CUDA controls it: "fail=FUNCTION:CODE", "hang=FUNCTION", "crash=FUNCTION",
// or "@PATH" for a file that contains one of these. The environment variables for CUDA and the
// release of the context are logged to the file named by CARMA_FAKE_CUDA_LOG.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr const char* kVariables[] = {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY",
                                      "CUDA_MPS_LOG_DIRECTORY", "CUDA_MODULE_LOADING"};

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "(unset)";
}

void Log(const std::string& line) {
  const char* const path = std::getenv("CARMA_FAKE_CUDA_LOG");
  std::FILE* const log = path != nullptr ? std::fopen(path, "a") : nullptr;
  if (log == nullptr) return;
  std::fprintf(log, "%s\n", line.c_str());
  std::fclose(log);
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int Answer(const std::string& function) {
  std::string order = Variable("CARMA_FAKE_CUDA");
  if (order.starts_with("@")) order = FirstLine(order.substr(1));
  if (order == "hang=" + function) {
    for (;;) ::pause();
  }
  if (order == "crash=" + function) std::abort();
  const std::string fail = "fail=" + function + ":";
  return order.starts_with(fail) ? std::atoi(order.c_str() + fail.size()) : 0;
}

}  // namespace

FAKE_EXPORT int cuInit(unsigned) {
  for (const char* name : kVariables) Log(std::string(name) + "=" + Variable(name));
  return Answer("cuInit");
}
FAKE_EXPORT int cuDeviceGetCount(int* count) {
  *count = std::atoi(Variable("CARMA_FAKE_CUDA_COUNT").c_str());
  if (*count == 0) *count = 1;
  return Answer("cuDeviceGetCount");
}
FAKE_EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return Answer("cuDeviceGet");
}
FAKE_EXPORT int cuDeviceGetPCIBusId(char* text, int size, int) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:07:00.0");
  return Answer("cuDeviceGetPCIBusId");
}
FAKE_EXPORT int cuGetErrorString(int code, const char** text) {
  *text = code == 802 ? "system not yet initialized" : nullptr;
  return code == 802 ? 0 : 1;
}
#ifndef CARMA_FAKE_CUDA_WITHOUT_CONTEXTS
FAKE_EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = nullptr;
  return Answer("cuDevicePrimaryCtxRetain");
}
FAKE_EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  Log("released");
  return Answer("cuDevicePrimaryCtxRelease_v2");
}
#endif
