#include "daemon/loop/housekeeping.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/fake_clock.h"
#include "store/task_fixture.h"

namespace carma::daemon {
namespace {

constexpr int kKeepDays = 30;

class HousekeepingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-housekeeping-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    auto opened = store::Store::Open(dir_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = *std::move(opened);
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  void PutEnded(std::uint64_t first, std::uint64_t last, base::Time ended) {
    ASSERT_TRUE(store_->Begin());
    for (std::uint64_t id = first; id <= last; ++id) {
      store::StoredTask task = store::FinishedTask(id, 0);
      task.record.ended = ended;
      ASSERT_TRUE(store_->PutTask(task));
    }
    ASSERT_TRUE(store_->Commit());
  }
  std::size_t Kept() { return store_->List({.limit = 1'000})->size(); }

  std::string dir_;
  std::unique_ptr<store::Store> store_;
  base::FakeClock clock_{base::FromMs(1'800'000'000'000)};
};

TEST_F(HousekeepingTest, DeletesABacklogOfOldTasksInPieces) {
  const base::Time kept_from = clock_.Now() - std::chrono::hours(24) * kKeepDays;
  PutEnded(1, 501, kept_from - base::Duration(1));
  PutEnded(502, 503, kept_from);
  boost::asio::io_context loop(1);
  LoopMeter meter(loop, [](std::chrono::nanoseconds) {});
  Housekeeping housekeeping(loop, meter, *store_, clock_, [] { return kKeepDays; });
  housekeeping.Run();
  EXPECT_EQ(Kept(), 3U) << "500 tasks are deleted in one piece";
  while (Kept() > 2) loop.run_one();
  EXPECT_TRUE(store_->Get(core::TaskId{502})) << "it is too recent to be deleted";
}

// carmad started while the system's clock was ahead.
TEST_F(HousekeepingTest, DeletesByTheEarlierClock) {
  struct StepClock : base::FakeClock {
    using FakeClock::FakeClock;
    base::Duration WallStep() override { return step; }
    base::Duration step{-100'000'000'000};
  } clock(base::FromMs(1'900'000'000'000));
  PutEnded(1, 3, clock_.Now());
  boost::asio::io_context loop(1);
  LoopMeter meter(loop, [](std::chrono::nanoseconds) {});
  Housekeeping housekeeping(loop, meter, *store_, clock, [] { return kKeepDays; });
  housekeeping.Start();
  EXPECT_EQ(Kept(), 3U) << "the clock may not have been set yet";
  housekeeping.Run();
  EXPECT_EQ(Kept(), 3U);
  clock.step = base::Duration{-120'000};
  housekeeping.Run();
  EXPECT_EQ(Kept(), 0U) << "a clock that was corrected at the start stops no deletion";
}

}  // namespace
}  // namespace carma::daemon
