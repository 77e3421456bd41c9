#include "daemon/present/server_status.h"

#include <boost/asio/io_context.hpp>

#include "api/troubles.h"
#include "base/fake_clock.h"
#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ServerStatusTest : public EndpointTest {
 protected:
  StatusSources Starting() {
    return {.version = version_,
            .settings = settings_,
            .clock = clock_,
            .store = *store_,
            .counters = counters_,
            .configuration = configuration_,
            .driver_trouble = driver_trouble_,
            .missing_gpus = missing_gpus_};
  }
  StatusSources Serving() {
    StatusSources sources = Starting();
    sources.engine = engine_.get();
    sources.monitor = monitor_.get();
    sources.forecast_drift = &forecast_drift_;
    return sources;
  }

  std::string version_ = "1.2.3";
  config::Settings settings_;
  Counters counters_;
  ForecastDrift forecast_drift_;
  Configuration configuration_{std::make_shared<boost::asio::io_context>(1), config::Loaded{},
                               [] { return config::Sources{}; }, clock_, nullptr};
  std::string driver_trouble_, missing_gpus_;
};

TEST_F(ServerStatusTest, IsStartingUntilTheDriverHasAnswered) {
  api::StatusView view = PresentStatus(Starting());
  EXPECT_TRUE(view.starting);
  EXPECT_EQ(view.driver, "being asked");
  EXPECT_EQ(view.version, "1.2.3");
  EXPECT_THAT(view.troubles, IsEmpty());
  driver_trouble_ = "it does not answer";
  view = PresentStatus(Starting());
  EXPECT_FALSE(view.starting) << "waiting would not help";
  EXPECT_EQ(view.driver, driver_trouble_);
  EXPECT_THAT(view.troubles, ElementsAre(api::TroubleOfDriver(driver_trouble_)));
}

TEST_F(ServerStatusTest, ReportsProfilesThatCouldNotBeRead) {
  StatusSources sources = Starting();
  sources.profiles_trouble = "estimate.profiles: open /x: No such file or directory";
  EXPECT_THAT(PresentStatus(sources).troubles,
              ElementsAre("estimates: estimate.profiles: open /x: No such file or directory; "
                          "correct the file and reload carmad"));
}

TEST_F(ServerStatusTest, ReportsThatTheMachinesClockWasSet) {
  struct StepClock : base::FakeClock {
    base::Duration WallStep() override { return step; }
    base::Duration step{-60'000};
  } clock;
  const auto troubles = [&] {
    return PresentStatus({.version = version_,
                          .settings = settings_,
                          .clock = clock,
                          .store = *store_,
                          .counters = counters_,
                          .configuration = configuration_,
                          .driver_trouble = driver_trouble_,
                          .missing_gpus = missing_gpus_})
        .troubles;
  };
  EXPECT_THAT(troubles(), IsEmpty());
  clock.step = base::Duration(-3'600'000);
  EXPECT_THAT(troubles(),
              ElementsAre("clock: since carmad started, the machine's clock was set back by "
                          "3600 s; restart carmad to use the new time"));
}

TEST_F(ServerStatusTest, CountsTasks) {
  SubmitHeld();
  const api::StatusView view = PresentStatus(Serving());
  EXPECT_FALSE(view.starting);
  EXPECT_EQ(view.driver, api::kDriverIsWell);
  EXPECT_THAT(view.task_counts, ElementsAre(std::pair<std::string, std::int64_t>("queued", 1)));
}

TEST_F(ServerStatusTest, ShowsWhenTheTasksOfAClosedServerLeave) {
  settings_.kill_grace = base::Duration(30'000);
  engine_->Close(
      {"closed by root until the machine reboots", clock_.Now() + base::Duration(60'000)});
  engine_->Turn();
  const api::StatusView view = PresentStatus(Serving());
  EXPECT_EQ(view.closed, "closed by root until the machine reboots");
  EXPECT_EQ(view.leave_by_ms, base::ToMs(clock_.Now()) + 60'000);
  EXPECT_GE(view.gone_by_ms, *view.leave_by_ms + 30'000)
      << "plus the grace period of the last task";
  EXPECT_THAT(view.troubles, ElementsAre(api::ServerIsClosed(view.closed)));
}

TEST_F(ServerStatusTest, ReportsAConfiguredGpuThatIsMissing) {
  missing_gpus_ = "daemon.gpus names 99, which the driver does not list";
  EXPECT_THAT(PresentStatus(Serving()).troubles, ElementsAre(missing_gpus_));
}

TEST_F(ServerStatusTest, ReportsASilentDriverOnceForAllGpus) {
  monitor_->DriverSilent({ErrorCode::kUnavailable, "it does not answer"});
  EXPECT_EQ(PresentStatus(Serving()).troubles.size(), 2U);
  driver_trouble_ = "it does not answer";
  EXPECT_THAT(PresentStatus(Serving()).troubles,
              ElementsAre(api::TroubleOfDriver(driver_trouble_)));
}

}  // namespace
}  // namespace carma::daemon
