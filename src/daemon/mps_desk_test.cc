#include "daemon/mps_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "base/log.h"
#include "task/mps/fake_mps_test.h"

namespace carma::daemon {
namespace {

using base::Result;
using base::Unit;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(20);
constexpr core::TaskId kFirst{1}, kSecond{2};

class MpsDeskTest : public ::testing::Test {
 protected:
  MpsDeskTest() {
    base::SetLogLevel(base::LogLevel::kError);
    options_.setup = fake_.setup;
    options_.timeout = kPatience;
    options_.linger = std::chrono::hours(1);
    options_.probe = std::chrono::hours(1);
    options_.backoff = std::chrono::hours(1);
    Open();
  }
  ~MpsDeskTest() override { base::SetLogLevel(base::LogLevel::kInfo); }
  void Open() { desk_ = OpenMpsDesk(loop_, options_); }

  bool Until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      loop_->restart();
      loop_->run_one_for(milliseconds(20));
    }
    return true;
  }
  Result<Unit> Seat(core::TaskId id) {
    std::optional<Result<Unit>> answer;
    desk_->Seat({id, 1, fake_.seat}, [&](Result<Unit> given) { answer = std::move(given); });
    EXPECT_FALSE(answer) << "never from within the call";
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer.value_or(base::Fail(base::ErrorCode::kIo, "no answer"));
  }
  MpsFate Fate(core::TaskId id) {
    std::optional<MpsFate> fate;
    desk_->AskFate(id, 1, [&](MpsFate given) { fate = given; });
    EXPECT_TRUE(Until([&] { return fate.has_value(); }));
    return fate.value_or(MpsFate{});
  }
  bool DaemonRuns() const { return task::MpsControl(fake_.setup, fake_.seat).Daemon().has_value(); }
  void KillServer() {
    const auto pid = base::ParseInt(base::Trim(fake_.Read("/server")));
    ASSERT_TRUE(pid);
    ::kill(static_cast<pid_t>(*pid), SIGKILL);
    const auto dead = [&] {
      const auto stat = base::ReadProcessStat(static_cast<pid_t>(*pid));
      return !stat || stat->state == 'Z';
    };
    ASSERT_TRUE(Until(dead));
  }

  task::FakeMps fake_;
  MpsDeskOptions options_;
  std::shared_ptr<boost::asio::io_context> loop_ = std::make_shared<boost::asio::io_context>(1);
  std::unique_ptr<MpsDesk> desk_;
};

TEST_F(MpsDeskTest, OneDaemonServesTheTasksOfASeatAndEndsAfterTheLast) {
  options_.linger = milliseconds(1);
  Open();
  ASSERT_TRUE(Seat(kFirst));
  ASSERT_TRUE(Seat(kSecond));
  EXPECT_EQ(fake_.Read("/runs").find("-d"), fake_.Read("/runs").rfind("-d")) << "started once";
  desk_->Leave(kFirst, 1);
  EXPECT_TRUE(Fate(kSecond).broke == false);
  EXPECT_TRUE(DaemonRuns());
  desk_->Leave(kSecond, 1);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
  ASSERT_TRUE(Seat(kFirst)) << "and starts again for the next";
}

TEST_F(MpsDeskTest, ARefusalIsRememberedForAWhile) {
  fake_.Write("/refuse");
  EXPECT_THAT(Seat(kFirst).error().message, HasSubstr("no MPS on this device"));
  fake_.Remove("/refuse");
  const std::string runs = fake_.Read("/runs");
  EXPECT_THAT(Seat(kFirst).error().message, HasSubstr("no MPS on this device"));
  EXPECT_EQ(fake_.Read("/runs"), runs) << "not asked again";
  options_.backoff = milliseconds(0);
  Open();
  EXPECT_TRUE(Seat(kFirst));
}

TEST_F(MpsDeskTest, AfterTheBackOffTheNextTaskTriesAgain) {
  options_.backoff = std::chrono::nanoseconds(1);
  Open();
  fake_.Write("/refuse");
  EXPECT_FALSE(Seat(kFirst));
  fake_.Remove("/refuse");
  EXPECT_TRUE(Seat(kFirst));
}

TEST_F(MpsDeskTest, ASuccessEndsTheBackOff) {
  fake_.Write("/refuse-once");
  std::vector<bool> seated;
  for (const core::TaskId id : {kFirst, kSecond})
    desk_->Seat({id, 1, fake_.seat}, [&](const Result<Unit>& given) { seated.push_back(!!given); });
  ASSERT_TRUE(Until([&] { return seated.size() == 2; }));
  EXPECT_EQ(seated, (std::vector{false, true})) << "the second was asked for before the refusal";
  EXPECT_TRUE(Seat(core::TaskId{3}));
}

TEST_F(MpsDeskTest, AnEndDoesNotWaitForAServerThatHangsOverAnotherTask) {
  options_.terminate_limit = milliseconds(1);
  Open();
  ASSERT_TRUE(Seat(kFirst));
  fake_.Write("/hang");
  bool answered = false;
  desk_->Seat({kSecond, 1, fake_.seat}, [&](const Result<Unit>&) { answered = true; });
  EXPECT_FALSE(Fate(kFirst).broke);
  EXPECT_FALSE(answered) << "it still has most of its time";
  fake_.Remove("/hang");
}

TEST_F(MpsDeskTest, AHangingDaemonIsGivenUp) {
  options_.timeout = milliseconds(200);
  fake_.Write("/hang");
  Open();
  EXPECT_THAT(Seat(kFirst).error().message, HasSubstr("in time"));
  fake_.Remove("/hang");
}

TEST_F(MpsDeskTest, AServerThatIsFullTakesNoFurtherTask) {
  options_.clients = 2;
  Open();
  fake_.Write("/clients", "11\n12\n");
  EXPECT_THAT(Seat(kFirst).error().message, HasSubstr("2 clients already"));
  fake_.Write("/clients", "");
  ASSERT_TRUE(Seat(kFirst)) << "no back-off";
  ASSERT_TRUE(Seat(kSecond));
  base::SetLogLevel(base::LogLevel::kWarn);
  ::testing::internal::CaptureStderr();
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(Seat(core::TaskId{3}).error().message, HasSubstr("2 clients already"))
        << "those that have not connected yet count";
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("mps_refused"), std::string::npos);
  EXPECT_EQ(log.find("mps_refused"), log.rfind("mps_refused")) << "told once";
}

TEST_F(MpsDeskTest, ClientsAreTakenOffByTheirProcesses) {
  ASSERT_TRUE(Seat(kFirst));
  fake_.Write("/clients", "11\n12\n13\n");
  bool done = false;
  desk_->TakeOff(
      kFirst, 1, [](pid_t pid) { return pid != 12; }, [&] { done = true; });
  EXPECT_FALSE(done);
  ASSERT_TRUE(Until([&] { return done; }));
  const std::string server = std::string(base::Trim(fake_.Read("/server")));
  EXPECT_EQ(fake_.Read("/terminated"), server + " 11\n" + server + " 13\n");
}

TEST_F(MpsDeskTest, AStopWaitsForAHangingDaemonOnlySoLong) {
  ASSERT_TRUE(Seat(kFirst));
  options_.terminate_limit = milliseconds(100);
  Open();
  desk_->Adopt({kFirst, 1, fake_.seat});
  fake_.Write("/hang");
  int calls = 0;
  desk_->TakeOff(
      kFirst, 1, [](pid_t) { return true; }, [&] { ++calls; });
  desk_->TakeOff(
      kSecond, 1, [](pid_t) { return true; }, [&] { ++calls; });  // not known
  ASSERT_TRUE(Until([&] { return calls == 2; }));
  fake_.Remove("/hang");
}

TEST_F(MpsDeskTest, TheFateOfThoseAtADeadServer) {
  ASSERT_TRUE(Seat(kFirst));
  EXPECT_FALSE(Fate(kFirst).broke);
  KillServer();
  EXPECT_TRUE(Fate(kFirst).broke);
  EXPECT_FALSE(Fate(kSecond).broke) << "not known here";
  ASSERT_TRUE(Seat(kSecond)) << "at a new server";
  EXPECT_FALSE(Fate(kSecond).broke);
  EXPECT_TRUE(Fate(kFirst).broke);
}

TEST_F(MpsDeskTest, AServerOutlivesItsControlDaemon) {
  ASSERT_TRUE(Seat(kFirst));
  const auto control = task::MpsControl(fake_.setup, fake_.seat).Daemon();
  ASSERT_TRUE(control);
  ::kill(control->pid, SIGKILL);
  ASSERT_TRUE(Until([&] { return !base::Alive(*control); }));
  EXPECT_FALSE(Fate(kFirst).broke);
  ASSERT_TRUE(Seat(kSecond));
  EXPECT_TRUE(DaemonRuns()) << "a new one";
}

TEST_F(MpsDeskTest, TheFateOfThoseAtAFaultedServer) {
  ASSERT_TRUE(Seat(kFirst));
  ASSERT_TRUE(Seat(kSecond));
  fake_.Write("/status", "FAULT\n");
  EXPECT_TRUE(Fate(kFirst).broke);
  EXPECT_THAT(Seat(core::TaskId{3}).error().message, HasSubstr("faulted state"));
  fake_.Remove("/status");
  EXPECT_TRUE(Fate(kSecond).broke) << "it was there, although the server works again";
  EXPECT_FALSE(Fate(kFirst).blamed);
  desk_->Blame(kFirst, 1);
  EXPECT_FALSE(Fate(kFirst).blamed) << "not by itself";
  EXPECT_EQ(Fate(kSecond).blamed, kFirst);
  options_.backoff = milliseconds(0);
  Open();
  ASSERT_TRUE(Seat(core::TaskId{4}));
  EXPECT_FALSE(Fate(core::TaskId{4}).broke) << "came later";
}

TEST_F(MpsDeskTest, AnotherDaemonTakesItsServersOver) {
  ASSERT_TRUE(Seat(kFirst));
  options_.linger = milliseconds(1);
  Open();
  desk_->Adopt({kFirst, 1, fake_.seat});
  desk_->TakeOver({fake_.seat.gpus});
  EXPECT_FALSE(Fate(kFirst).broke);
  KillServer();
  EXPECT_TRUE(Fate(kFirst).broke);
  desk_->Leave(kFirst, 1);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

TEST_F(MpsDeskTest, AServerThatEndedBetweenTwoDaemonsHasBroken) {
  ASSERT_TRUE(Seat(kFirst));
  KillServer();
  Open();
  desk_->Adopt({kFirst, 1, fake_.seat});
  EXPECT_TRUE(Fate(kFirst).broke);
}

TEST_F(MpsDeskTest, ServersWithoutTasksEndWhenTheirGpuIsDrained) {
  ASSERT_TRUE(Seat(kFirst));
  desk_->Drain(fake_.seat.gpus);
  EXPECT_FALSE(Fate(kFirst).broke) << "it has a task";
  desk_->Leave(kFirst, 1);
  desk_->Drain("GPU-other");
  EXPECT_TRUE(DaemonRuns());
  desk_->Drain(fake_.seat.gpus);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

TEST_F(MpsDeskTest, TheEndOfTheDaemonLeavesServersWithTasksOnly) {
  ASSERT_TRUE(Seat(kFirst));
  desk_->Close();
  EXPECT_TRUE(DaemonRuns());
  desk_->Leave(kFirst, 1);
  desk_->Close();
  EXPECT_FALSE(DaemonRuns());
}

TEST_F(MpsDeskTest, LeftoversOfAnEarlierDaemonEnd) {
  ASSERT_TRUE(Seat(kFirst));
  options_.linger = milliseconds(1);
  Open();
  desk_->TakeOver({fake_.seat.gpus});
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

}  // namespace
}  // namespace carma::daemon
