#include "task/verdict/oom_detect.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/text.h"

namespace carma::task {
namespace {

using core::ExitKind;

constexpr const char* kPyTorch =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 88, in <module>\n"
    "    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total "
    "capacity of 39.39 GiB of which 190.31 MiB is free.\n";
constexpr const char* kOldPyTorch =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 12, in <module>\n"
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 39.59 GiB total "
    "capacity)\n";
constexpr const char* kTorchrun =
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB.\n"
    "E0301 14:05:59.123000 139 torch/distributed/elastic/multiprocessing/api.py:869] failed\n"
    "Traceback (most recent call last):\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "train.py FAILED\n"
    "  exitcode  : 1 (pid: 4711)\n";
constexpr const char* kTensorFlow =
    "2026-03-01 14:05:59.123456: W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed "
    "at conv_ops.cc: RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[128,64,112,112] and "
    "type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
    "Traceback (most recent call last):\n"
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n"
    "OOM when allocating tensor with shape[128,64,112,112]\n";
constexpr const char* kTensorFlowWarning =
    "2026-03-01 14:05:59.123456: W tensorflow/tsl/framework/bfc_allocator.cc:290] Allocator "
    "(GPU_0_bfc) ran out of memory trying to allocate 2.20GiB with freed_by_count=0. The caller "
    "indicates that this is not a failure, but this may mean that there could be performance gains "
    "if more memory were available.\n";
constexpr const char* kTensorFlowRetry =
    "2026-03-01 14:05:59.123456: E tensorflow/stream_executor/cuda/cuda_driver.cc:733] failed to "
    "allocate 4.00G (4294967296 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n";
constexpr const char* kJax =
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
    "allocate 17179869184 bytes.\n";
constexpr const char* kJaxBfc =
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for "
    "1.50GiB (1610612736B) on device ordinal 0\n";
constexpr const char* kVllm =
    "(EngineCore pid=17374) ERROR 09-28 15:47:24 [core.py:718] ValueError: Free memory on device "
    "cuda:0 (31.44/47.38 GiB) on startup is less than desired GPU memory utilization (0.95, 45.01 "
    "GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    "RuntimeError: Engine core initialization failed. See root cause above.\n";
constexpr const char* kValueError =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 40, in <module>\n"
    "ValueError: Shapes (None, 10) and (None, 100) are incompatible\n";
constexpr const char* kMpsServer =
    "RuntimeError: CUDA error: the remote procedural call between the MPS server and the MPS "
    "client failed\n";

constexpr const char* kIllegalAccess =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 7, in <module>\n"
    "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call.\n";

std::string Repeat(const std::string& line, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line;
  return text;
}

struct Case {
  const char* name;
  ExitEvidence evidence;
  std::string tail;
  ExitKind kind;
  const char* detail = "";  // part of the expected detail
};

TEST(ClassifyExit, NeedsAnAbnormalEndAndSeparateEvidence) {
  const std::vector<Case> cases{
      {"success is success", {}, "", ExitKind::kSuccess},
      {"PyTorch's text",
       {.exit_code = 1},
       kPyTorch,
       ExitKind::kOutOfMemory,
       "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB"},
      {"PyTorch's old text", {.exit_code = 1}, kOldPyTorch, ExitKind::kOutOfMemory, "20.00 MiB"},
      {"torch.cuda.OutOfMemoryError",
       {.exit_code = 1},
       "torch.cuda.OutOfMemoryError: CUDA out of memory.\n",
       ExitKind::kOutOfMemory},
      {"a rank under torchrun", {.exit_code = 1}, kTorchrun, ExitKind::kOutOfMemory, "[rank1]"},
      {"TensorFlow's text, aborted",
       {.signal = SIGABRT},
       kTensorFlow,
       ExitKind::kOutOfMemory,
       "OOM when allocating tensor"},
      {"TensorFlow's text, shell-style abort",
       {.exit_code = 134},
       kTensorFlow,
       ExitKind::kOutOfMemory},
      {"JAX's text", {.exit_code = 1}, kJax, ExitKind::kOutOfMemory, "17179869184"},
      {"JAX's allocator", {.exit_code = 1}, kJaxBfc, ExitKind::kOutOfMemory},
      {"vLLM beside others", {.exit_code = 1, .device_full = 0.4}, kVllm, ExitKind::kOutOfMemory},
      {"CUDA's run time",
       {.exit_code = 2},
       "main.cu:42: cudaMalloc failed: out of memory\n",
       ExitKind::kOutOfMemory},
      {"CUDA's error name",
       {.signal = SIGABRT},
       "terminate called: cudaErrorMemoryAllocation\n",
       ExitKind::kOutOfMemory},
      {"exit 0 is success despite the message", {}, kPyTorch, ExitKind::kSuccess},
      {"we stopped it",
       {.signal = SIGTERM, .stopped_by_us = true},
       kPyTorch,
       ExitKind::kFailed,
       "SIGTERM"},
      {"a non-zero exit alone", {.exit_code = 1}, "", ExitKind::kFailed, "exit code 1"},
      {"a usage hint after the reason",
       {.exit_code = 125},
       "docker: Cannot connect to the Docker daemon.\n\nRun 'docker run --help' for more "
       "information\n",
       ExitKind::kFailed,
       "exit code 125: docker: Cannot connect"},
      {"a non-zero exit alone, memory free",
       {.exit_code = 1, .device_full = 0.5},
       "",
       ExitKind::kFailed},
      {"a ValueError", {.exit_code = 1}, kValueError, ExitKind::kFailed, "ValueError: Shapes"},
      {"a ValueError on a full GPU is still a ValueError",
       {.exit_code = 1, .device_full = 1.0},
       kValueError,
       ExitKind::kFailed},
      {"no output at all on a full GPU",
       {.signal = SIGSEGV, .device_full = 0.99},
       "",
       ExitKind::kOutOfMemory,
       "99 % full"},
      {"a cuDNN failure on a full GPU",
       {.exit_code = 1, .device_full = 0.985},
       "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\n",
       ExitKind::kOutOfMemory},
      {"a cuDNN failure on a GPU with free memory",
       {.exit_code = 1, .device_full = 0.7},
       "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\n",
       ExitKind::kFailed},
      {"just below full", {.exit_code = 1, .device_full = 0.979}, "", ExitKind::kFailed},
      {"killed from outside on a full GPU",
       {.signal = SIGKILL, .device_full = 1.0},
       "",
       ExitKind::kFailed,
       "SIGKILL"},
      {"137 on a full GPU",
       {.exit_code = 137, .device_full = 1.0},
       "",
       ExitKind::kFailed,
       "which indicates signal 9"},
      {"cuBLAS could not allocate, GPU unknown",
       {.exit_code = 1},
       "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)\n",
       ExitKind::kOutOfMemory},
      {"cuBLAS could not allocate, GPU nearly full",
       {.exit_code = 1, .device_full = 0.93},
       "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)\n",
       ExitKind::kOutOfMemory},
      {"cuBLAS could not allocate, GPU half empty",
       {.exit_code = 1, .device_full = 0.5},
       "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)\n",
       ExitKind::kFailed},
      {"a harmless warning, then an unrelated error",
       {.exit_code = 1},
       std::string(kTensorFlowWarning) + kValueError,
       ExitKind::kFailed},
      {"a survived allocation in the log, then an unrelated error",
       {.exit_code = 1},
       std::string(kTensorFlowRetry) + kValueError,
       ExitKind::kFailed},
      {"the same log line at the very end",
       {.signal = SIGABRT},
       kTensorFlowRetry,
       ExitKind::kOutOfMemory},
      {"an old message, many lines before an unrelated end",
       {.exit_code = 1},
       std::string(kPyTorch) + Repeat("epoch 3 step 100 loss 0.1\n", 300) + "Segmentation fault\n",
       ExitKind::kFailed},
      {"an old message, many KiB before the end",
       {.exit_code = 1},
       std::string(kPyTorch) + std::string(20'000, '.') + "\n",
       ExitKind::kFailed},
      {"an OOM whose handling raised another exception",
       {.exit_code = 1},
       std::string(kPyTorch) +
           "During handling of the above exception, another exception occurred:\n" + kValueError,
       ExitKind::kOutOfMemory},
      {"TensorFlow out of host memory",
       {.exit_code = 1},
       "ResourceExhaustedError: OOM when allocating tensor on /device:CPU:0 by allocator cpu\n",
       ExitKind::kFailed},
      {"Python out of host memory, GPU full",
       {.exit_code = 1, .device_full = 1.0},
       "MemoryError: Unable to allocate 12.0 GiB\n",
       ExitKind::kFailed},
      {"the kernel killed it because host memory ran out",
       {.signal = SIGKILL, .host_oom = true, .device_full = 1.0},
       kPyTorch,
       ExitKind::kHostMemory},
      {"no report", {.lost = true}, kPyTorch, ExitKind::kLost},
      {"the MPS server broke", {.exit_code = 1}, kMpsServer, ExitKind::kVictim, "MPS server"},
      {"terminated by the MPS server",
       {.exit_code = 1},
       "CUDA error 810: cudaErrorMpsClientTerminated\n",
       ExitKind::kVictim},
      {"719 without an MPS fault is the task's own fault",
       {.exit_code = 1},
       "RuntimeError: CUDA error: unspecified launch failure\n",
       ExitKind::kFailed},
      {"a lack of MPS slots is not a neighbour's fault",
       {.exit_code = 1},
       "CUDA error 808: cudaErrorMpsMaxClientsReached\n",
       ExitKind::kFailed},
      {"an MPS message, but exit 0", {}, kMpsServer, ExitKind::kSuccess},
      {"out of memory under an MPS server that then terminated it",
       {.exit_code = 1},
       std::string(kPyTorch) + kMpsServer,
       ExitKind::kOutOfMemory},
      {"a survived allocation in the log, then the MPS server broke",
       {.exit_code = 1},
       std::string(kTensorFlowRetry) + kMpsServer,
       ExitKind::kVictim,
       "MPS server"},
      {"the server broke, and the task died without output",
       {.signal = SIGABRT, .server_broke = true},
       "epoch 3\n",
       ExitKind::kVictim,
       "its MPS server failed; killed by signal 6"},
      {"the server broke, but the task failed by itself",
       {.exit_code = 1, .server_broke = true},
       kValueError,
       ExitKind::kFailed,
       "ValueError"},
      {"the server broke, and the task ran out of memory",
       {.exit_code = 1, .server_broke = true},
       kPyTorch,
       ExitKind::kOutOfMemory},
      {"the server broke: the first task to report the fault caused it",
       {.exit_code = 1, .server_broke = true},
       kIllegalAccess,
       ExitKind::kGpuFault,
       "illegal memory access"},
      {"the server broke: a later task with the same message is a victim",
       {.exit_code = 1, .server_broke = true, .neighbour_blamed = true},
       kIllegalAccess,
       ExitKind::kVictim,
       "hit by a neighbour's fault"},
      {"the kernel's log names another task: a victim, although it reported first",
       {.exit_code = 1,
        .program_fault = "Xid 31: MMU fault",
        .fault_of = "task 7",
        .mps_client = true,
        .server_broke = true},
       kIllegalAccess,
       ExitKind::kVictim,
       "hit by a fault caused by task 7: RuntimeError: CUDA error: an illegal memory access"},
      {"the kernel's log names this task, although another was blamed before",
       {.exit_code = 1,
        .program_fault = "Xid 31: MMU fault",
        .neighbours = true,
        .made_fault = true,
        .mps_client = true,
        .server_broke = true,
        .neighbour_blamed = true},
       kIllegalAccess,
       ExitKind::kGpuFault,
       "Xid 31: MMU fault; RuntimeError: CUDA error: an illegal memory access"},
      {"the kernel's log names this task, which died without output",
       {.signal = SIGABRT,
        .program_fault = "Xid 31: MMU fault",
        .neighbours = true,
        .made_fault = true,
        .mps_client = true,
        .server_broke = true},
       "",
       ExitKind::kGpuFault,
       "Xid 31: MMU fault; killed by signal 6"},
      {"another task's fault does not spread under streams",
       {.exit_code = 1, .neighbours = true, .fault_of = "task 7"},
       kIllegalAccess,
       ExitKind::kGpuFault,
       "illegal memory access"},
      {"another task's fault does not explain a ValueError",
       {.exit_code = 1, .fault_of = "task 7", .mps_client = true, .server_broke = true},
       kValueError,
       ExitKind::kFailed,
       "ValueError"},
      {"PyTorch's pointer to an explanation is not the error",
       {.exit_code = 1},
       "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
       "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/ for more.\n"
       "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
       ExitKind::kGpuFault,
       "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"},
      {"the pointer is not the error after an MPS server fault",
       {.exit_code = 1},
       "torch.AcceleratorError: CUDA error: the remote procedural call between the MPS server and "
       "the MPS client failed\nSearch for `cudaErrorMpsRpcFailure' in https://docs.nvidia.com/\n",
       ExitKind::kVictim,
       "torch.AcceleratorError: CUDA error: the remote procedural call"},
      {"the server broke, no task was blamed: a failed launch is the task's own",
       {.exit_code = 1, .server_broke = true},
       "RuntimeError: CUDA error: unspecified launch failure\n",
       ExitKind::kFailed},
      {"a program's fault counts without a driver report",
       {.exit_code = 1},
       kIllegalAccess,
       ExitKind::kGpuFault,
       "illegal memory access"},
      {"a driver report and the task's own message",
       {.exit_code = 1, .program_fault = "Xid 13: graphics engine exception", .neighbours = true},
       "RuntimeError: CUDA error: unspecified launch failure\n",
       ExitKind::kGpuFault,
       "Xid 13: graphics engine exception; RuntimeError"},
      {"a driver report without output, alone on the GPU",
       {.signal = SIGABRT, .program_fault = "Xid 31: MMU fault"},
       "",
       ExitKind::kGpuFault,
       "Xid 31: MMU fault; killed by signal 6"},
      {"a driver report without output, with neighbours",
       {.signal = SIGABRT, .program_fault = "Xid 31: MMU fault", .neighbours = true},
       "",
       ExitKind::kFailed,
       "SIGABRT"},
      {"a driver report does not explain a ValueError",
       {.exit_code = 1, .program_fault = "Xid 31: MMU fault"},
       kValueError,
       ExitKind::kFailed,
       "ValueError"},
      {"the device failed",
       {.exit_code = 1, .device_full = 0.99, .device_fault = "Xid 79: fell off the bus"},
       "RuntimeError: CUDA error: unspecified launch failure\n",
       ExitKind::kDeviceFault,
       "Xid 79: fell off the bus"},
      {"out of memory by its own message while the device failed",
       {.exit_code = 1, .device_fault = "Xid 79: fell off the bus"},
       kPyTorch,
       ExitKind::kOutOfMemory},
      {"stopped by us while the device failed",
       {.signal = SIGTERM, .stopped_by_us = true, .device_fault = "Xid 79: fell off the bus"},
       "",
       ExitKind::kFailed},
      {"segmentation fault", {.signal = SIGSEGV}, "", ExitKind::kFailed, "SIGSEGV"},
      {"the text after a progress bar",
       {.exit_code = 1},
       "12%|##  | 1/8\r25%|####| 2/8\rRuntimeError: CUDA out of memory. Tried to allocate 2 MiB",
       ExitKind::kOutOfMemory,
       "RuntimeError: CUDA out of memory"},
  };
  for (const Case& c : cases) {
    ExitEvidence evidence = c.evidence;
    evidence.stderr_tail = c.tail;
    const core::ExitInfo info = ClassifyExit(evidence);
    EXPECT_EQ(static_cast<int>(info.kind), static_cast<int>(c.kind)) << c.name << info.detail;
    EXPECT_NE(info.detail.find(c.detail), std::string::npos) << c.name << ": " << info.detail;
    EXPECT_EQ(info.detail.find('\n'), std::string::npos) << c.name;
    EXPECT_EQ(info.signal, c.evidence.signal) << c.name;
  }
}

TEST(ClassifyExit, KeepsTheDetailPrintable) {
  ExitEvidence evidence{.exit_code = 1};
  evidence.stderr_tail = "\x1b[31mRuntimeError: CUDA out of memory\xff\x1b[0m";
  const core::ExitInfo info = ClassifyExit(evidence);
  EXPECT_EQ(static_cast<int>(info.kind), static_cast<int>(ExitKind::kOutOfMemory));
  EXPECT_TRUE(base::IsUtf8(info.detail));
  EXPECT_EQ(info.detail.find('\x1b'), std::string::npos);
}

TEST(FindOomText, GivesTheLastMatchingLine) {
  EXPECT_EQ(FindOomText("CUDA out of memory 1\nCUDA out of memory 2\nbye\n"),
            "CUDA out of memory 2");
  EXPECT_EQ(FindOomText("CUDA out of memory\nCUBLAS_STATUS_ALLOC_FAILED\n"), "CUDA out of memory");
  EXPECT_EQ(FindOomText("all is well\n"), std::nullopt);
  EXPECT_EQ(FindOomText(""), std::nullopt);
}

TEST(TriedToAllocateMib, ReadsTheSizeThatPyTorchAndJaxPrint) {
  EXPECT_EQ(TriedToAllocateMib("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 "
                               "GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.00 GiB is"),
            2560);
  EXPECT_EQ(TriedToAllocateMib("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB"),
            20);
  EXPECT_EQ(TriedToAllocateMib("Tried to allocate 512 bytes"), 1);
  EXPECT_EQ(TriedToAllocateMib("RESOURCE_EXHAUSTED: Failed to allocate request for 1.5GiB (161061"),
            1536);
  EXPECT_EQ(TriedToAllocateMib("Out of memory while trying to allocate 4294967296 bytes."), 4096);
}

TEST(TriedToAllocateMib, IsZeroWithoutAValidSize) {
  for (const char* text :
       {"", "CUDA out of memory", "Tried to allocate ", "Tried to allocate lots",
        "Tried to allocate 1.2.3 GiB", "Tried to allocate 7 parsecs", "Tried to allocate -1 GiB",
        "Tried to allocate 99999999999999999999 GiB"}) {
    EXPECT_EQ(TriedToAllocateMib(text), 0) << text;
  }
}

TEST(FindGpuFaultText, FindsTextsAndErrorNames) {
  EXPECT_EQ(FindGpuFaultText(kIllegalAccess),
            "RuntimeError: CUDA error: an illegal memory access was encountered");
  EXPECT_EQ(FindGpuFaultText("terminate called: cudaErrorAssert\n"),
            "terminate called: cudaErrorAssert");
  EXPECT_EQ(FindGpuFaultText("CUDA_ERROR_LAUNCH_FAILED\n"), "CUDA_ERROR_LAUNCH_FAILED");
  EXPECT_EQ(FindGpuFaultText(kPyTorch), std::nullopt);
  EXPECT_EQ(FindGpuFaultText(kValueError), std::nullopt);
}

TEST(SpeaksOfCudaError, FindsAnyError) {
  EXPECT_TRUE(SpeaksOfCudaError("RuntimeError: CUDA error: unknown error\n"));
  EXPECT_TRUE(SpeaksOfCudaError("ncclUnhandledCudaError: unhandled cuda error\nsee above\n"));
  EXPECT_FALSE(SpeaksOfCudaError("Using CUDA 12.4\nValueError: no such file\n"));
}

TEST(FindMpsFaultText, FindsTextsAndErrorNames) {
  EXPECT_TRUE(FindMpsFaultText(kMpsServer));
  EXPECT_EQ(FindMpsFaultText("x\nCUDA_ERROR_MPS_RPC_FAILURE\ny\n"), "CUDA_ERROR_MPS_RPC_FAILURE");
  EXPECT_EQ(FindMpsFaultText("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED\n"), std::nullopt);
}

}  // namespace
}  // namespace carma::task
