#include "base/server_clock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace carma::base {
namespace {

class ServerClockTest : public ::testing::Test {
 protected:
  ~ServerClockTest() override { ::unlink(path_.c_str()); }
  void Write(const ServerHead& head, std::size_t bytes = 4096) const {
    std::string text(reinterpret_cast<const char*>(&head), sizeof head);
    text.resize(bytes);
    std::ofstream(path_, std::ios::binary) << text;
  }
  std::string path_ = ::testing::TempDir() + "/carma-clock-" + std::to_string(::getpid());
};

TEST_F(ServerClockTest, TheClockIsReadFromTheHeadOfTheFile) {
  EXPECT_EQ(ReadServerClock(path_).error().code, ErrorCode::kNotFound);
  Write(MakeServerHead(4096, {60, 1'700'000'000'000, 123}));
  const Result<ClockOrigin> clock = ReadServerClock(path_);
  ASSERT_TRUE(clock) << clock.error().message;
  EXPECT_EQ(clock->time_scale, 60);
  EXPECT_EQ(clock->origin_time_ms, 1'700'000'000'000);
  EXPECT_EQ(clock->origin_boot_ns, 123);
}

TEST_F(ServerClockTest, AnythingElseIsRefused) {
  const ServerHead good = MakeServerHead(4096, {});
  ServerHead other = good;
  other.version = 99;
  ServerHead older = good;
  older.boot_id[0] ^= 1;
  ServerHead broken = good;
  broken.clock.time_scale = 0;
  ServerHead strange = good;
  strange.magic[0] = 'X';
  for (const ServerHead& each : {other, older, broken, strange}) {
    Write(each);
    EXPECT_EQ(ReadServerClock(path_).error().code, ErrorCode::kCorrupt);
  }
  Write(good, 1000);
  EXPECT_EQ(ReadServerClock(path_).error().code, ErrorCode::kCorrupt) << "torn";
  Write(good, 10);
  EXPECT_EQ(ReadServerClock(path_).error().code, ErrorCode::kCorrupt) << "no complete header";
}

}  // namespace
}  // namespace carma::base
