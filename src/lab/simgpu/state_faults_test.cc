#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "lab/simgpu/server_fixture.h"
#include "lab/simgpu/state.h"

namespace carma::simgpu {
namespace {

TEST(StateFaults, TheWorstFaultWins) {
  const TestServer file("2xA100-40GB");
  const std::unique_ptr<Server> server = std::move(*Server::Attach(file.path()));
  ASSERT_TRUE(server->SetFault({FaultKind::kNanActivity, 0, 0, ""}));
  ASSERT_TRUE(server->SetFault({FaultKind::kError, 0, 10, "nvmlDeviceGetPowerUsage"}));
  EXPECT_EQ(server->FaultOn(0, "nvmlDeviceGetName")->kind, FaultKind::kNanActivity);
  EXPECT_EQ(server->FaultOn(0, "nvmlDeviceGetPowerUsage")->code, 10);
  EXPECT_EQ(server->FaultOn(1, "nvmlDeviceGetPowerUsage")->kind, FaultKind::kNone);
  ASSERT_TRUE(server->SetFault({FaultKind::kVanish, kWholeDriver, 0, ""}));
  EXPECT_EQ(server->FaultOn(1, "nvmlInit_v2")->kind, FaultKind::kVanish);
  ASSERT_TRUE(server->ClearFaults(kWholeDriver));
  EXPECT_EQ(server->Faults()->size(), 2u);
  ASSERT_TRUE(server->ClearFaults());
  EXPECT_EQ(server->FaultOn(0, "")->kind, FaultKind::kNone);
  EXPECT_EQ(server->SetFault({FaultKind::kLost, 2, 0, ""}).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace carma::simgpu
