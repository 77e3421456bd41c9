#include "gpu/read_error.h"

#include <gtest/gtest.h>

namespace carma::gpu {
namespace {

TEST(ReadError, NamesTheGpuIfTheMessageDoesNot) {
  const ReadError lost(ErrorCode::kNotFound, "it is lost", "GPU-a");
  EXPECT_EQ(lost.message, "it is lost");
  EXPECT_EQ(lost.Sentence(), "GPU GPU-a: it is lost");
}

TEST(ReadError, DoesNotShowMadeUpNames) {
  for (const char* made_up : {"GPU-unknown-4", "MIG-unknown-4-0"})
    EXPECT_EQ(ReadError(ErrorCode::kUnavailable, "it hangs", made_up).Sentence(), "it hangs");
}

TEST(ReadError, DriverErrorsNameNoGpu) {
  const Result<Unit> opened = Unavailable("no driver");
  const ReadResult<int> read = std::unexpected(opened.error());
  EXPECT_EQ(read.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(read.error().gpu, "");
  EXPECT_EQ(read.error().Sentence(), "no driver");
}

}  // namespace
}  // namespace carma::gpu
