#include "lab/simgpu/framework_text.h"

#include <fmt/format.h>

#include "base/text.h"

namespace carma::simgpu {
namespace {

constexpr const char* kTorchTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 142, in <module>\n"
    "    main(parse_args())\n"
    "  File \"train.py\", line 117, in main\n"
    "    loss.backward()\n";
constexpr const char* kJaxTraceback =
    "Traceback (most recent call last):\n"
    "  File \"train.py\", line 88, in <module>\n"
    "    state, loss = train_step(state, batch)\n";

std::string Size(std::int64_t mib) {
  return mib < 1024 ? fmt::format("{:.2f} MiB", static_cast<double>(mib))
                    : fmt::format("{:.2f} GiB", static_cast<double>(mib) / 1024);
}

std::string PyTorchText(const FailedAllocation& failed) {
  // PyTorch's figure excludes the CUDA context, which is part of the process's memory. Its
  // allocator also keeps a few percent in reserve.
  const std::int64_t allocated = failed.own_mib * 93 / 100;
  const std::int64_t unallocated = failed.own_mib * 3 / 100;
  return fmt::format(
      "{}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU {} has a total "
      "capacity of {} of which {} is free. Including non-PyTorch memory, this process has {} "
      "memory in use. Of the allocated memory {} is allocated by PyTorch, and {} is reserved by "
      "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n",
      kTorchTraceback, Size(failed.wanted_mib), failed.device, Size(failed.usable_mib),
      Size(failed.free_mib), Size(failed.own_mib), Size(allocated), Size(unallocated));
}

std::string TensorFlowText(const FailedAllocation& failed) {
  const std::string tensor = fmt::format(
      "OOM when allocating tensor with shape[{},256,256] and type float on "
      "/job:localhost/replica:0/task:0/device:GPU:{} by allocator GPU_{}_bfc",
      failed.wanted_mib * 4, failed.device, failed.device);  // 256 x 256 floats are 1/4 MiB
  return fmt::format(
      "W tensorflow/core/framework/op_kernel.cc] OP_REQUIRES failed at conv_ops.cc : "
      "RESOURCE_EXHAUSTED: {}\n"
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 96, in <module>\n"
      "    model.fit(data, epochs=args.epochs)\n"
      "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n"
      "\n"
      "{}\n",
      tensor, tensor);
}

std::string JaxText(const FailedAllocation& failed) {
  return fmt::format(
      "{}jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
      "allocate {} bytes.\n",
      kJaxTraceback, failed.wanted_mib << 20);
}

}  // namespace

Result<Framework> ParseFramework(std::string_view name) {
  if (name == "pytorch") return Framework::kPyTorch;
  if (name == "tensorflow") return Framework::kTensorFlow;
  if (name == "jax") return Framework::kJax;
  return Invalid("unknown framework '" + base::Printable(name, 40) +
                 "', expected pytorch, tensorflow or jax");
}

std::string OomText(Framework framework, const FailedAllocation& failed) {
  switch (framework) {
    case Framework::kTensorFlow:
      return TensorFlowText(failed);
    case Framework::kJax:
      return JaxText(failed);
    case Framework::kPyTorch:
      break;
  }
  return PyTorchText(failed);
}

std::string CudaErrorText(Framework framework, const CudaError& error) {
  switch (framework) {
    case Framework::kTensorFlow:
      return fmt::format(
          "E tensorflow/compiler/xla/stream_executor/cuda/cuda_event.cc] Error polling for event "
          "status: failed to query event: {}: {}\n"
          "F tensorflow/core/common_runtime/device/device_event_mgr.cc] Unexpected Event status: "
          "1\n",
          error.name, error.text);
    case Framework::kJax:
      return fmt::format("{}jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA error: {}: {}\n",
                         kJaxTraceback, error.name, error.text);
    case Framework::kPyTorch:
      break;
  }
  return fmt::format(
      "{}RuntimeError: CUDA error: {}\n"
      "CUDA kernel errors might be asynchronously reported at some other API call, so the "
      "stacktrace below might be incorrect.\n",
      kTorchTraceback, error.text);
}

std::string HarmlessOomWarning(std::int64_t wanted_mib) {
  return fmt::format(
      "W tensorflow/core/common_runtime/bfc_allocator.cc] Allocator (GPU_0_bfc) ran out of memory "
      "trying to allocate {:.2f}GiB with freed_by_count=0. The caller indicates that this is not a "
      "failure, but this may mean that there could be performance gains if more memory were "
      "available.\n",
      static_cast<double>(wanted_mib) / 1024);
}

std::string PlainTraceback() {
  return "Traceback (most recent call last):\n"
         "  File \"train.py\", line 142, in <module>\n"
         "    main(parse_args())\n"
         "  File \"train.py\", line 61, in main\n"
         "    labels = batch[\"label\"]\n"
         "KeyError: 'label'\n";
}

}  // namespace carma::simgpu
