#include "daemon/gpus/sampler.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <filesystem>
#include <mutex>

namespace carma::daemon {
namespace {

// A fake driver whose behaviour is set by the test.
class FakeDriver : public gpu::Probe {
 public:
  enum class Mood { kWell, kGone, kSilent, kHangs };
  void Set(Mood mood) {
    const std::lock_guard lock(mutex_);
    mood_ = mood;
    changed_.notify_all();
  }
  void Has(std::vector<std::string> uuids) {
    const std::lock_guard lock(mutex_);
    uuids_ = std::move(uuids);
  }
  gpu::ReadResult<std::vector<gpu::DeviceInfo>> Devices() override {
    if (Now() == Mood::kGone) return Unavailable("no driver");
    const std::lock_guard lock(mutex_);
    std::vector<gpu::DeviceInfo> devices;
    for (const std::string& uuid : uuids_) {
      if (uuid.starts_with(gpu::kUnknownGpu)) {
        devices.push_back({.uuid = uuid, .trouble = {"it hangs"}});
      } else {
        devices.push_back({.uuid = uuid, .name = "A100", .pci = uuid, .total_mib = 41'000});
      }
    }
    return devices;
  }
  gpu::ReadResult<gpu::Reading> Read(std::size_t device, base::Time now) override {
    if (Now() != Mood::kWell) return Unavailable("silent");
    gpu::Reading reading;
    reading.taken = now;
    reading.used_mib = static_cast<std::int64_t>(device);  // identifies the GPU
    reading.processes = {{.pid = ::getpid()}};
    return reading;
  }
  void Keep(std::vector<gpu::DeviceInfo> devices) override {
    const std::lock_guard lock(mutex_);
    kept_ = std::move(devices);
  }
  std::vector<gpu::DeviceInfo> kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }
  void LeaveAlone(const std::set<std::size_t>& devices) override {
    const std::lock_guard lock(mutex_);
    left_alone_ = devices;
  }
  std::set<std::size_t> left_alone() {
    const std::lock_guard lock(mutex_);
    return left_alone_;
  }

 private:
  Mood Now() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return mood_ != Mood::kHangs; });
    return mood_;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  Mood mood_ = Mood::kWell;
  std::vector<std::string> uuids_ = {"GPU-0"};
  std::vector<gpu::DeviceInfo> kept_;
  std::set<std::size_t> left_alone_;
};
using Mood = FakeDriver::Mood;

class SamplerTest : public ::testing::Test, public Sampler::Taker {
 protected:
  SamplerTest() {
    std::string folder = ::testing::TempDir() + "/carma-sampler-XXXXXX";
    options_.state_dir = ::mkdtemp(folder.data());
    options_.period = base::Duration(2);
    options_.probe_timeout = base::Duration(30'000);
  }
  ~SamplerTest() override {
    driver_->Set(Mood::kGone);
    sampler_.reset();
    std::filesystem::remove_all(options_.state_dir);
  }
  Sampler& Open() {
    sampler_ = std::make_unique<Sampler>(loop_, driver_, clock_, options_, *this);
    sampler_->Start();
    return *sampler_;
  }
  void Until(const std::function<bool()>& so) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!so() && std::chrono::steady_clock::now() < patience) {
      loop_->restart();
      loop_->run_one_for(std::chrono::milliseconds(50));
    }
    ASSERT_TRUE(so());
  }

  void TakeGpus(std::vector<gpu::DeviceInfo> devices) override { gpus_.push_back(devices); }
  std::set<std::size_t> LeftAlone() override { return alone_; }
  void TakeRound(gpu::Round round, SeenProcesses seen) override {
    rounds_.push_back(std::move(round));
    seen_.push_back(std::move(seen));
  }
  void DriverSilent(const gpu::ReadError& why) override { silent_.push_back(why.Sentence()); }

  std::shared_ptr<boost::asio::io_context> loop_ = std::make_shared<boost::asio::io_context>(1);
  std::shared_ptr<FakeDriver> driver_ = std::make_shared<FakeDriver>();
  std::shared_ptr<base::Clock> clock_ = std::make_shared<base::SystemClock>();
  SamplerOptions options_;
  std::vector<std::vector<gpu::DeviceInfo>> gpus_;
  std::vector<gpu::Round> rounds_;
  std::vector<SeenProcesses> seen_;
  std::set<std::size_t> alone_;
  std::vector<std::string> silent_;
  std::unique_ptr<Sampler> sampler_;
};

TEST_F(SamplerTest, ListsTheGpusOnceAndThenReadsThemPeriodically) {
  const Sampler& sampler = Open();
  Until([&] { return rounds_.size() >= 3; });
  ASSERT_EQ(gpus_.size(), 1U);
  EXPECT_EQ(gpus_[0].at(0).uuid, "GPU-0");
  EXPECT_TRUE(rounds_[0].at(0)->has_value());
  EXPECT_EQ(seen_[0].at(::getpid()).line.front(), base::SelfProcess());
  EXPECT_EQ(sampler.driver_trouble(), "");
}

TEST_F(SamplerTest, FindsALateDriverAndSearchesAgainForALostOne) {
  driver_->Set(Mood::kGone);
  const Sampler& sampler = Open();
  Until([&] { return !silent_.empty(); });
  EXPECT_EQ(silent_[0], "no driver");
  EXPECT_EQ(sampler.driver_trouble(), "no driver");
  EXPECT_TRUE(gpus_.empty());
  driver_->Set(Mood::kWell);
  Until([&] { return !rounds_.empty(); });
  EXPECT_EQ(gpus_.size(), 1U);
  EXPECT_EQ(sampler.driver_trouble(), "");
  driver_->Set(Mood::kGone);
  silent_.clear();
  Until([&] { return !silent_.empty(); });
  EXPECT_EQ(gpus_.size(), 1U);
}

TEST_F(SamplerTest, UsesTheStoredGpusIfTheDriverIsSilent) {
  Open();
  Until([&] { return !rounds_.empty(); });
  driver_->Set(Mood::kGone);
  gpus_.clear();
  silent_.clear();
  Open();
  Until([&] { return !silent_.empty(); });
  ASSERT_EQ(gpus_.size(), 1U);
  EXPECT_EQ(gpus_[0].at(0).name, "A100");
}

TEST_F(SamplerTest, UsesOnlyTheConfiguredGpus) {
  options_.only = {"1", "GPU-2"};
  driver_->Has({"GPU-0", "GPU-1", "GPU-2"});
  Open();
  Until([&] { return !rounds_.empty(); });
  ASSERT_EQ(gpus_.at(0).size(), 2U);
  EXPECT_EQ(gpus_[0][0].uuid, "GPU-1");
  EXPECT_EQ(gpus_[0][1].uuid, "GPU-2");
  EXPECT_EQ(rounds_[0].size(), 2U);
  // With `only`, the stored GPUs are not used, because older versions of carmad stored only the
  // GPUs that were selected then.
  driver_->Set(Mood::kGone);
  options_.only = {"0"};
  gpus_.clear();
  silent_.clear();
  Open();
  Until([&] { return !silent_.empty(); });
  EXPECT_TRUE(gpus_.empty());
}

TEST_F(SamplerTest, TheConfiguredGpusKeepTheirNumbersIfOneHangsDuringARestart) {
  for (const std::vector<std::string>& only :
       {std::vector<std::string>{"GPU-1", "GPU-2"}, {"1", "2"}}) {
    options_.only = only;
    driver_->Has({"GPU-0", "GPU-1", "GPU-2"});
    rounds_.clear();
    Open();
    Until([&] { return !rounds_.empty(); });
    driver_->Has({"GPU-0", "GPU-unknown-1", "GPU-2"});
    alone_ = {0};
    gpus_.clear();
    rounds_.clear();
    const Sampler& sampler = Open();
    Until([&] { return !rounds_.empty(); });
    EXPECT_EQ(sampler.missing_gpus(), "");
    ASSERT_EQ(gpus_.at(0).size(), 2U);
    EXPECT_EQ(gpus_[0][0].uuid, "GPU-1");
    EXPECT_EQ(gpus_[0][0].trouble.text, "it hangs");
    EXPECT_EQ(gpus_[0][1].uuid, "GPU-2");
    EXPECT_EQ(rounds_[0].at(1)->value().used_mib, 2) << "the number in the driver's list";
    EXPECT_EQ(driver_->left_alone(), std::set<std::size_t>{1});
    EXPECT_EQ(driver_->kept().size(), 3U) << "the probe needs the whole list to find GPU 1";
    alone_.clear();
  }
}

TEST_F(SamplerTest, DoesNotReportOtherGpusAsMissing) {
  driver_->Has({"GPU-0", "GPU-1"});
  options_.only = {"GPU-0"};
  Open();
  Until([&] { return !rounds_.empty(); });
  driver_->Has({"GPU-0"});
  rounds_.clear();
  const Sampler& sampler = Open();
  Until([&] { return !rounds_.empty(); });
  EXPECT_EQ(sampler.missing_gpus(), "");
}

TEST_F(SamplerTest, UsesTheOtherGpusIfOneIsMissing) {
  options_.only = {"0", "99"};
  const Sampler& sampler = Open();
  EXPECT_EQ(sampler.missing_gpus(), "");
  Until([&] { return !rounds_.empty(); });
  EXPECT_EQ(gpus_.at(0).size(), 1U);
  EXPECT_EQ(sampler.driver_trouble(), "");
  EXPECT_EQ(sampler.missing_gpus(),
            "daemon.gpus names 99, which the driver does not list; restart carmad once it does");
}

TEST_F(SamplerTest, ReportsAGpuThatIsMissingAfterARestart) {
  driver_->Has({"GPU-0", "GPU-1"});
  EXPECT_EQ(Open().missing_gpus(), "");
  Until([&] { return !rounds_.empty(); });
  driver_->Has({"GPU-0"});
  rounds_.clear();
  const Sampler& sampler = Open();
  Until([&] { return !rounds_.empty(); });
  EXPECT_EQ(sampler.missing_gpus(),
            "the driver has not listed these GPUs since carmad restarted: GPU-1 (A100 at GPU-1)");
}

TEST_F(SamplerTest, DoesNotReplaceAMissingGpuByAnother) {
  options_.only = {"7"};
  const Sampler& sampler = Open();
  Until([&] { return !silent_.empty(); });
  EXPECT_TRUE(gpus_.empty());
  EXPECT_EQ(sampler.driver_trouble(), "daemon.gpus names 7, which the driver does not list");
}

TEST_F(SamplerTest, ReportsADriverThatHangsAndContinuesWhenItReturns) {
  options_.probe_timeout = base::Duration(20);
  const Sampler& sampler = Open();
  Until([&] { return !rounds_.empty(); });
  driver_->Set(Mood::kHangs);
  Until([&] { return !silent_.empty(); });
  EXPECT_NE(sampler.driver_trouble().find("has not answered"), std::string::npos);
  rounds_.clear();
  driver_->Set(Mood::kWell);
  Until([&] { return !rounds_.empty(); });
  EXPECT_EQ(sampler.driver_trouble(), "");
}

TEST_F(SamplerTest, DoesNotReadGpusThatAreLeftAlone) {
  alone_ = {0};
  const Sampler& sampler = Open();
  Until([&] { return rounds_.size() >= 3; });
  EXPECT_FALSE(rounds_.back().at(0));
  EXPECT_EQ(sampler.driver_trouble(), "") << "an unqueried driver does not count as silent";
  EXPECT_EQ(driver_->left_alone(), alone_);
  alone_.clear();
  Until([&] { return rounds_.back().at(0).has_value(); });
  EXPECT_EQ(driver_->left_alone(), alone_);
}

TEST_F(SamplerTest, WaitersGetAReadingThatBeganAfterTheirRequest) {
  Sampler& sampler = Open();
  Until([&] { return !rounds_.empty(); });
  const base::Time asked = clock_->Now();
  bool told = false;
  sampler.AfterNextReading([&] { told = true; });
  EXPECT_FALSE(told);
  Until([&] { return told; });
  EXPECT_GE(rounds_.back().at(0)->value().taken, asked);
}

}  // namespace
}  // namespace carma::daemon
