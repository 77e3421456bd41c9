// A simulated server in its own folder, for tests.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/clock.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {

class TestServer {
 public:
  explicit TestServer(const std::string& shape, const ServerOptions& options = {}) {
    std::string folder = ::testing::TempDir() + "/simgpu.XXXXXX";
    folder_ = ::mkdtemp(folder.data()) ? folder : "";
    const auto made = CreateServer(path(), shape, options);
    EXPECT_TRUE(made) << made.error().message;
  }
  ~TestServer() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string path() const { return folder_ + "/server"; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

// Waits until the server must check its file again (one millisecond of real time).
inline void LetFileCheckExpire() {
  const std::int64_t from = base::BootTimeNs();
  while (base::BootTimeNs() - from <= kFileCheckNs) {
  }
}

}  // namespace carma::simgpu
