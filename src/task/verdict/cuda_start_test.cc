#include "task/verdict/cuda_start.h"

#include <gtest/gtest.h>

namespace carma::task {
namespace {

TEST(CudaStart, RecognisesTheMessagesOfFrameworks) {
  for (const char* line :
       {"RuntimeError: No CUDA GPUs are available",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet "
        "initialized",
        "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly "
        "set up environment",
        "E tensorflow/stream_executor/cuda/cuda_driver.cc:265] failed call to cuInit: UNKNOWN "
        "ERROR (303)",
        "RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION",
        "CUDA error: no CUDA-capable device is detected"}) {
    EXPECT_EQ(FindCudaStartText(std::string("Traceback\n") + line + "\n"), line);
  }
}

TEST(CudaStart, IgnoresErrorsOfProgramsThatRan) {
  for (const char* text :
       {"", "FileNotFoundError: data/train.csv\n",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
        "RuntimeError: CUDA error: an illegal memory access was encountered\n",
        "AssertionError: Torch not compiled with CUDA enabled\n"}) {
    EXPECT_EQ(FindCudaStartText(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace carma::task
