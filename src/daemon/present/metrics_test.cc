#include "daemon/present/metrics.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

TEST(Counters, ALaunchCountsOnlyOnceIfItsRecordChanges) {
  Counters counters;
  core::TaskRecord record;
  record.id = core::TaskId{1};
  record.state = core::TaskState::kLaunching;
  record.queued_since = base::FromMs(1'000);
  record.attempt.Edit().launched = base::FromMs(3'000);
  counters.Count(record);
  record.attempt.Edit().sharing.method = core::SharingMethod::kMps;
  counters.Count(record);
  record.state = core::TaskState::kRunning;
  counters.Count(record);
  EXPECT_EQ(counters.dispatches, 1U);
  api::MetricsText out;
  out.Begin("waits", "histogram", "");
  out.Sample(counters.wait_seconds);
  EXPECT_NE(out.text().find("waits_count 1\n"), std::string::npos) << out.text();
}

TEST(Counters, ForecastsAreCountedOnceATaskHasEnded) {
  Counters counters;
  core::TaskRecord record;
  record.id = core::TaskId{1};
  record.estimate =
      core::Estimate{.peak_mib = 12'000, .method = "structural", .predicted_mib = 10'000};
  record.peak_mib = 13'000;
  record.state = core::TaskState::kRunning;
  counters.Count(record);
  EXPECT_TRUE(counters.forecasts.empty());
  record.state = core::TaskState::kSucceeded;
  record.ended = base::FromMs(9'000);
  counters.Count(record);
  const Counters::Forecasts& memory = counters.forecasts.at({"memory_mib", "structural"});
  EXPECT_EQ(memory.kept, 0U);
  EXPECT_EQ(memory.broken, 1U);
  EXPECT_DOUBLE_EQ(memory.ratio.sum(), 1.3);
}

TEST(Counters, MethodsNamedByUsersAreCountedAsGiven) {
  Counters counters;
  for (const char* source : {"rad", "mine-1", "mine-2"})
    counters.Count(EstimateResult{.estimate = core::Estimate{.peak_mib = 5, .method = source}});
  counters.Count(EstimateResult{
      .estimate = core::Estimate{.peak_mib = 9, .method = "structural", .predicted_mib = 7}});
  counters.Count(EstimateResult{});
  EXPECT_EQ(counters.estimates,
            (std::map<std::string, std::uint64_t>{{"given", 3}, {"none", 1}, {"structural", 1}}));
}

class MetricsTextTest : public EndpointTest {
 protected:
  // The value of a metric with these labels, if any, as written in the text.
  std::string ValueOf(const std::string& series) {
    const std::string text = MetricsText(engine_.get(), monitor_.get(), *store_, {}, configuration_,
                                         clock_.Now(), "1.2.3");
    const std::string line = "\n" + series + " ";
    const std::size_t at = text.find(line);
    if (at == std::string::npos) return "none";
    return text.substr(at + line.size(), text.find('\n', at + 1) - at - line.size());
  }
  Configuration configuration_{std::make_shared<boost::asio::io_context>(1), config::Loaded{},
                               [] { return config::Sources{}; }, clock_, nullptr};
};

TEST_F(MetricsTextTest, OnlyTasksThatWaitForGpusHaveAWaitingTime) {
  const std::string family = "carma_queue_oldest_wait_seconds";
  const auto wait = [&] { clock_.Advance(std::chrono::hours(1)); };
  const core::TaskId held = SubmitHeld();
  task::TaskSpec spec = Spec();
  spec.begin = clock_.Now() + std::chrono::hours(10);
  Submit(spec);
  spec.begin.reset();
  spec.dependencies = {{held, core::DependencyKind::kAfterOk, {}}};
  Submit(spec);
  wait();
  EXPECT_EQ(ValueOf(family), "0");
  spec = Spec();
  spec.gpus = 2;
  spec.exclusive = true;
  Submit(spec);
  const core::TaskId behind = Submit(spec);
  ASSERT_EQ(engine_->scheduler().Find(behind)->state, core::TaskState::kQueued);
  wait();
  EXPECT_NE(ValueOf(family), "0");
  engine_->Post(core::HoldRequested{behind});
  engine_->Turn();
  wait();
  EXPECT_EQ(ValueOf(family), "0");
  engine_->Post(core::ReleaseRequested{behind});
  engine_->Turn();
  wait();
  EXPECT_EQ(ValueOf(family), "3600") << "the time before its release does not count";
}

TEST_F(MetricsTextTest, OmitsMeasurementsUntilTheFirstReading) {
  const auto value = [&](const std::string& what) {
    return ValueOf("carma_gpu_memory_" + what + R"(_bytes{gpu="1",uuid="GPU-b",model="A100"})");
  };
  EXPECT_NE(value("total"), "none");
  EXPECT_EQ(value("used"), "0");
  monitor_ = std::make_unique<Monitor>(monitor_->devices(), MonitorOptions{});
  for (const char* what : {"total", "reserved", "used", "foreign"})
    EXPECT_EQ(value(what), "none") << what;
  EXPECT_EQ(value("promised"), "0");
  Settle();
  EXPECT_EQ(value("used"), "0");
}

TEST_F(MetricsTextTest, DoesNotCountALostGpuAsHealthyOnceItIsDrained) {
  const std::string health = R"(carma_gpu_health{gpu="1",uuid="GPU-b",model="A100"})";
  EXPECT_EQ(ValueOf(health), "1");
  const auto post = [this](core::Event event) {
    engine_->Post(std::move(event));
    engine_->Turn();
  };
  post(core::GpuHealthChanged{core::GpuIndex{1}, false, true, "fell off the bus"});
  EXPECT_EQ(ValueOf(health), "0");
  post(core::DrainRequested{core::GpuIndex{1}, "repair"});
  EXPECT_EQ(ValueOf(health), "none");
}

TEST_F(MetricsTextTest, ShowsThatTheServerIsClosed) {
  EXPECT_EQ(ValueOf("carma_daemon_closed"), "0");
  engine_->Close({"closed by root until the machine reboots", clock_.Now()});
  engine_->Turn();
  EXPECT_EQ(ValueOf("carma_daemon_closed"), "1");
  engine_->Open();
  engine_->Turn();
  EXPECT_EQ(ValueOf("carma_daemon_closed"), "0");
}

}  // namespace
}  // namespace carma::daemon
