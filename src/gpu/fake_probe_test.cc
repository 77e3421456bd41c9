#include "gpu/fake_probe.h"

#include <gtest/gtest.h>

#include <thread>

namespace carma::gpu {
namespace {

TEST(FakeProbe, ReturnsTheAnswersThatWereSet) {
  FakeProbe probe(FakeProbe::EqualDevices(2, 40'960, 424));
  ASSERT_EQ(probe.Devices()->size(), 2u);
  probe.SetProcesses(1, {{.pid = 7, .used_mib = 300}, {.pid = 8, .used_mib = 200}}, 0.5);
  const ReadResult<Reading> reading = probe.Read(1, base::FromMs(9));
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->taken, base::FromMs(9));
  EXPECT_EQ(reading->used_mib, 500);
  EXPECT_EQ(reading->sm_active, 0.5);
  EXPECT_EQ(probe.Read(0, {})->used_mib, 0);
  EXPECT_EQ(probe.Read(2, {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(probe.reads(), 2u);
}

TEST(FakeProbe, FailsUntilCleared) {
  FakeProbe probe(FakeProbe::EqualDevices(1, 1'000));
  probe.Fail(0, {ErrorCode::kCorrupt, "NaN"});
  probe.FailDevices({ErrorCode::kUnavailable, "no driver"});
  EXPECT_EQ(probe.Read(0, {}).error().message, "NaN");
  EXPECT_EQ(probe.Devices().error().message, "no driver");
  probe.ClearFailures();
  EXPECT_TRUE(probe.Read(0, {}));
  EXPECT_TRUE(probe.Devices());
}

TEST(FakeProbe, HangsUntilReleased) {
  FakeProbe probe(FakeProbe::EqualDevices(1, 1'000));
  probe.Hang();
  std::thread worker([&] { EXPECT_TRUE(probe.Read(0, {})); });
  while (probe.hanging() == 0) std::this_thread::yield();
  EXPECT_EQ(probe.reads(), 0u);
  probe.Release();
  worker.join();
  EXPECT_EQ(probe.reads(), 1u);
}

}  // namespace
}  // namespace carma::gpu
