#include "daemon/engine/ends.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/fake_clock.h"

namespace carma::daemon {
namespace {

using core::ExitKind;

constexpr core::TaskId kTask{1};

std::string NewFolder() {
  std::string folder = ::testing::TempDir() + "/carma-ends-XXXXXX";
  return ::mkdtemp(folder.data());
}

// A core with one running task, and GPUs whose readings the test sets.
class EndsTest : public ::testing::Test, public GpuEvidence {
 protected:
  EndsTest() {
    core_.Handle(clock_.Now(), core::GpusDiscovered{{{"GPU-0", "A100", 41'000, 1'000}}});
    core::TaskRecord record;
    record.id = kTask;
    record.state = core::TaskState::kRunning;
    record.attempt.Edit().number = 2;
    record.attempt.Edit().placement = {{core::GpuIndex{0}, 5'000}};
    record.attempt.Edit().launched = record.attempt.Edit().started = clock_.Now();
    core_.Handle(clock_.Now(), core::TaskRestored{record});
  }
  ~EndsTest() override {
    store_.reset();
    std::filesystem::remove_all(state_dir_);
  }
  static task::ShimEvent Exit(int code, const std::string& last_words) {
    return {.kind = task::ShimEventKind::kExited,
            .id = kTask,
            .attempt = 2,
            .exit_code = code,
            .stderr_tail = last_words};
  }
  ExitKind Kind() const { return std::get<core::TaskExited>(posted_.at(0)).exit.kind; }

  std::optional<double> RecentFullness(core::GpuIndex) override { return 0.5; }
  std::vector<int> RecentXids(core::GpuIndex, base::Time) override { return xids_; }
  std::optional<core::TaskId> FaultyTask(core::GpuIndex, base::Time) override { return faulty_; }
  void AfterNextReading(std::function<void()> call) override { waiting_.push_back(call); }
  void TryCuda(const std::vector<core::GpuIndex>&,
               std::function<void(const std::string&)> call) override {
    trials_.push_back(std::move(call));
  }

  std::string state_dir_ = NewFolder();
  std::unique_ptr<store::Store> store_ = store::Store::Open(state_dir_).value();
  EngineOptions options_;
  core::Scheduler core_{core::PolicyConfig{}};
  base::FakeClock clock_{base::FromMs(1'000)};
  std::vector<core::Event> posted_;
  Ends ends_{options_, *store_, core_,
             clock_,   *this,   [this](core::Event event) { posted_.push_back(std::move(event)); }};
  std::vector<int> xids_;
  std::optional<core::TaskId> faulty_;
  std::vector<std::function<void()>> waiting_;
  std::vector<std::function<void(const std::string&)>> trials_;
};

TEST_F(EndsTest, AnEndThatExplainsItselfIsPostedAtOnce) {
  ends_.Take(Exit(0, ""));
  ASSERT_EQ(posted_.size(), 1U);
  EXPECT_EQ(Kind(), ExitKind::kSuccess);
  EXPECT_EQ(std::get<core::TaskExited>(posted_[0]).attempt, 2);
}

TEST_F(EndsTest, PostsWhenTheProcessEnded) {
  task::ShimEvent event = Exit(0, "");
  event.ended_boot_ns = 500'000'000;
  ends_.Take(event);
  EXPECT_EQ(std::get<core::TaskExited>(posted_.at(0)).ended, base::FromMs(500));
}

TEST_F(EndsTest, ACudaErrorWaitsForTheDriversNextReading) {
  ends_.Take(Exit(1, "CUDA error: an illegal memory access was encountered"));
  EXPECT_TRUE(posted_.empty());
  ASSERT_EQ(waiting_.size(), 1U);
  xids_ = {79};
  waiting_[0]();
  ASSERT_EQ(posted_.size(), 1U);
  EXPECT_EQ(Kind(), ExitKind::kDeviceFault) << "the GPU has fallen off the bus";
  waiting_[0]();
  EXPECT_EQ(posted_.size(), 1U) << "it is judged only once";
}

TEST_F(EndsTest, UsesTheOriginOfAFaultFromTheKernelsLog) {
  core::TaskRecord record = *core_.Find(kTask);
  record.id = core::TaskId{2};
  record.attempt.Edit().sharing.method = core::SharingMethod::kMps;
  core_.Handle(clock_.Now(), core::TaskRestored{record});
  xids_ = {31};
  faulty_ = kTask;
  task::ShimEvent neighbour = Exit(1, "CUDA error: an illegal memory access was encountered");
  neighbour.id = record.id;
  ends_.Take(neighbour);
  ends_.Take(Exit(1, "CUDA error: an illegal memory access was encountered"));
  ASSERT_EQ(posted_.size(), 2U);
  EXPECT_EQ(Kind(), ExitKind::kVictim) << "although its end was reported first";
  EXPECT_EQ(std::get<core::TaskExited>(posted_[1]).exit.kind, ExitKind::kGpuFault);
}

TEST_F(EndsTest, AnAttemptThatCouldNotBeginOnABrokenGpuDoesNotCount) {
  ends_.Take(Exit(1, "RuntimeError: No CUDA GPUs are available"));
  ASSERT_EQ(trials_.size(), 1U);
  trials_[0]("CUDA hangs");
  ASSERT_EQ(posted_.size(), 1U);
  const auto& failed = std::get<core::LaunchFailed>(posted_[0]);
  EXPECT_TRUE(failed.interrupted) << "the failure is not counted";
  EXPECT_EQ(failed.text, "CUDA hangs");
}

TEST_F(EndsTest, TheTaskIsAtFaultIfCudaWorks) {
  ends_.Take(Exit(1, "RuntimeError: No CUDA GPUs are available"));
  ASSERT_EQ(trials_.size(), 1U);
  trials_[0]("");
  ASSERT_EQ(posted_.size(), 1U);
  EXPECT_EQ(Kind(), ExitKind::kFailed);
}

TEST_F(EndsTest, TriesCudaOnlyAfterAFailedInitialisation) {
  ends_.Take(Exit(1, "FileNotFoundError: train.csv"));
  EXPECT_TRUE(trials_.empty());
  EXPECT_EQ(Kind(), ExitKind::kFailed);
}

TEST_F(EndsTest, DoesNotTryCudaAfterALongRun) {
  clock_.Advance(std::chrono::minutes(10));
  ends_.Take(Exit(1, "RuntimeError: No CUDA GPUs are available"));
  EXPECT_TRUE(trials_.empty());
}

TEST_F(EndsTest, LostOutputIsPartOfTheDetail) {
  task::ShimEvent event = Exit(0, "");
  event.text = "0.9M of its output could not be written";
  ends_.Take(event);
  ASSERT_EQ(posted_.size(), 1U);
  EXPECT_EQ(Kind(), ExitKind::kSuccess);
  EXPECT_EQ(std::get<core::TaskExited>(posted_[0]).exit.detail, event.text);
}

TEST_F(EndsTest, LostOutputFollowsTheReasonOfAFailure) {
  task::ShimEvent event = Exit(1, "ValueError: no");
  event.text = "7 bytes of its output could not be written";
  ends_.Take(event);
  ASSERT_EQ(posted_.size(), 1U);
  EXPECT_EQ(std::get<core::TaskExited>(posted_[0]).exit.detail,
            "exit code 1: ValueError: no; " + event.text);
}

TEST_F(EndsTest, AnXidThatIsAlreadyKnownNeedsNoFurtherReading) {
  xids_ = {31};
  ends_.Take(Exit(1, "CUDA error: an illegal memory access was encountered"));
  ASSERT_EQ(posted_.size(), 1U);
  EXPECT_EQ(Kind(), ExitKind::kGpuFault);
}

}  // namespace
}  // namespace carma::daemon
