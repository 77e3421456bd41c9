#include "daemon/engine/mps_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "base/log.h"
#include "task/mps/fake_mps_test.h"

namespace carma::daemon {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(20);
constexpr core::TaskId kFirst{1}, kSecond{2};

class MpsServersTest : public ::testing::Test {
 protected:
  MpsServersTest() {
    base::SetLogLevel(base::LogLevel::kError);
    options_.setup = fake_.setup;
    options_.timeout = kPatience;
    options_.linger = std::chrono::hours(1);
    options_.probe = std::chrono::hours(1);
    options_.backoff = std::chrono::hours(1);
    options_.is_closed = [this](const std::string& gpu) { return gpu == closed_; };
    options_.readable = [this](const std::string& gpus) {
      return readable_.empty() ? gpus : readable_;
    };
    Open();
  }
  ~MpsServersTest() override { base::SetLogLevel(base::LogLevel::kInfo); }
  void Open() { servers_ = OpenMpsServers(loop_, options_); }

  bool Until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      loop_->restart();
      loop_->run_one_for(milliseconds(20));
    }
    return true;
  }
  Result<MpsPlace> Attach(core::TaskId id, double sm_share = 0, const std::string& gpu = "") {
    std::optional<Result<MpsPlace>> answer;
    MpsClient client{id, 1, fake_.id, sm_share};
    if (!gpu.empty()) client.gpus = {gpu};
    servers_->Attach(client, [&](Result<MpsPlace> given) { answer = std::move(given); });
    EXPECT_FALSE(answer) << "never called before Attach() returns";
    EXPECT_TRUE(Until([&] { return answer.has_value(); }));
    return answer.value_or(Fail(ErrorCode::kIo, "no answer"));
  }
  MpsEvidence Evidence(core::TaskId id) {
    std::optional<MpsEvidence> evidence;
    servers_->AskEvidence(id, 1, [&](MpsEvidence given) { evidence = given; });
    EXPECT_TRUE(Until([&] { return evidence.has_value(); }));
    return evidence.value_or(MpsEvidence{});
  }
  void Close(const std::string& gpu) {
    closed_ = gpu;
    servers_->EndOnClosedGpus();
  }
  bool DaemonRuns() const { return task::MpsControl(fake_.setup, fake_.id).Daemon().has_value(); }
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
  std::string closed_;    // the closed GPU
  std::string readable_;  // the readable GPUs; empty: all
  MpsServersOptions options_;
  std::shared_ptr<boost::asio::io_context> loop_ = std::make_shared<boost::asio::io_context>(1);
  std::unique_ptr<MpsServers> servers_;
};

TEST_F(MpsServersTest, OneControlDaemonServesAllTasksAndEndsAfterTheLast) {
  options_.linger = milliseconds(1);
  Open();
  ASSERT_TRUE(Attach(kFirst));
  ASSERT_TRUE(Attach(kSecond));
  EXPECT_EQ(fake_.Read("/runs").find("-d"), fake_.Read("/runs").rfind("-d")) << "started once";
  servers_->Detach(kFirst, 1);
  EXPECT_TRUE(Evidence(kSecond).broke == false);
  EXPECT_TRUE(DaemonRuns());
  servers_->Detach(kSecond, 1);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
  ASSERT_TRUE(Attach(kFirst)) << "the server starts again for the next task";
}

TEST_F(MpsServersTest, EachClientOfAServerWithPartitionsHasOne) {
  fake_.Write("/help", "  -S,--static-partitioning   Divide the SMs\n");
  const Result<MpsPlace> first = Attach(kFirst, 0.5);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->partition, fake_.id.gpus + "/D1/x");
  EXPECT_EQ(first->sms, 52) << "13 of 27 chunks, rounded down";
  EXPECT_EQ(Attach(kSecond, 0.3)->partition, fake_.id.gpus + "/D2/x");
  EXPECT_THAT(Attach(core::TaskId{3}).error().message, HasSubstr("the task has no --sm-share"));
  EXPECT_THAT(Attach(core::TaskId{4}, 0.4).error().message, HasSubstr("RESOURCE_CONFIGURATION"));
  ASSERT_TRUE(Attach(core::TaskId{5}, 0.1)) << "no back-off";
  servers_->Detach(kSecond, 1);
  EXPECT_TRUE(Until([&] { return fake_.Read("/partitions").find("D2/x") == std::string::npos; }));
  EXPECT_THAT(fake_.Read("/partitions"), HasSubstr("D1/x"));

  // The next carmad keeps the partitions of the tasks that it takes over and removes all other
  // partitions.
  Open();
  servers_->Adopt({kFirst, 1, fake_.id, 0, first->partition});
  EXPECT_TRUE(Attach(core::TaskId{6}, 0.5)) << "task 5 has ended";
  EXPECT_THAT(fake_.Read("/partitions"), HasSubstr("D1/x"));
  EXPECT_THAT(fake_.Read("/partitions"), ::testing::Not(HasSubstr("D3/x")));

  // An unused server is restarted with or without partitions, depending on what the next task
  // needs.
  for (const core::TaskId id : {kFirst, core::TaskId{6}}) servers_->Detach(id, 1);
  EXPECT_TRUE(Attach(core::TaskId{7}));
  EXPECT_THAT(Attach(core::TaskId{8}, 0.3)->note, HasSubstr("without SM partitions"));
}

TEST_F(MpsServersTest, WithoutPartitionsAServerLimitsTheSms) {
  Result<MpsPlace> place = Attach(kFirst, 0.5);
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_THAT(place->note, HasSubstr("its MPS server runs without SM partitions"));
  EXPECT_EQ(place->partition, "");
  EXPECT_EQ(Attach(kSecond)->note, "");
}

TEST_F(MpsServersTest, AGpuWithoutPartitionsGetsAServerWithoutPartitions) {
  fake_.Write("/help", "  -S,--static-partitioning   Divide the SMs\n");
  fake_.Write("/no-partitions");
  const Result<MpsPlace> place = Attach(kFirst, 0.5);
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_THAT(place->note, HasSubstr("its MPS server runs without SM partitions"));
  EXPECT_TRUE(Attach(kSecond)) << "clients without a share are allowed too";
  EXPECT_EQ(fake_.Read("/runs").rfind("-d -S"), fake_.Read("/runs").find("-d -S"))
      << "partitions are tried only once";
}

TEST_F(MpsServersTest, DoesNotRetryAFailedStartForAWhile) {
  fake_.Write("/refuse");
  EXPECT_THAT(Attach(kFirst).error().message, HasSubstr("no MPS on this device"));
  fake_.Remove("/refuse");
  const std::string runs = fake_.Read("/runs");
  EXPECT_THAT(Attach(kFirst).error().message, HasSubstr("no MPS on this device"));
  EXPECT_EQ(fake_.Read("/runs"), runs) << "not started again during the back-off";
  options_.backoff = milliseconds(0);
  Open();
  EXPECT_TRUE(Attach(kFirst));
}

TEST_F(MpsServersTest, AfterTheBackOffTheNextTaskTriesAgain) {
  options_.backoff = std::chrono::nanoseconds(1);
  Open();
  fake_.Write("/refuse");
  EXPECT_FALSE(Attach(kFirst));
  fake_.Remove("/refuse");
  EXPECT_TRUE(Attach(kFirst));
}

TEST_F(MpsServersTest, ASuccessEndsTheBackOff) {
  fake_.Write("/refuse-once");
  std::vector<bool> attached;
  for (const core::TaskId id : {kFirst, kSecond})
    servers_->Attach({id, 1, fake_.id},
                     [&](const Result<MpsPlace>& given) { attached.push_back(!!given); });
  ASSERT_TRUE(Until([&] { return attached.size() == 2; }));
  EXPECT_EQ(attached, (std::vector{false, true})) << "the second request came before the refusal";
  EXPECT_TRUE(Attach(core::TaskId{3}));
}

TEST_F(MpsServersTest, EvidenceDoesNotWaitForAServerThatHangsForAnotherTask) {
  options_.terminate_limit = milliseconds(1);
  Open();
  ASSERT_TRUE(Attach(kFirst));
  fake_.Write("/hang");
  bool answered = false;
  servers_->Attach({kSecond, 1, fake_.id}, [&](const Result<MpsPlace>&) { answered = true; });
  EXPECT_FALSE(Evidence(kFirst).broke);
  EXPECT_FALSE(answered) << "most of its time limit remains";
  fake_.Remove("/hang");
}

TEST_F(MpsServersTest, GivesUpOnAHangingControlDaemon) {
  options_.timeout = milliseconds(200);
  fake_.Write("/hang");
  Open();
  EXPECT_THAT(Attach(kFirst).error().message, HasSubstr("in time"));
  fake_.Remove("/hang");
}

TEST_F(MpsServersTest, AServerThatIsFullTakesNoFurtherTask) {
  options_.clients = 2;
  Open();
  fake_.Write("/clients", "11\n12\n");
  EXPECT_THAT(Attach(kFirst).error().message, HasSubstr("already has 2 clients"));
  fake_.Write("/clients", "");
  ASSERT_TRUE(Attach(kFirst)) << "no back-off";
  ASSERT_TRUE(Attach(kSecond));
  EXPECT_THAT(Attach(core::TaskId{3}).error().message, HasSubstr("already has 2 clients"))
      << "clients that have not connected yet count";
}

TEST_F(MpsServersTest, AServerThatIsFullAgainAndAgainIsLoggedOnce) {
  options_.clients = 1;
  Open();
  base::SetLogLevel(base::LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  for (const std::uint64_t id : {1, 2, 3}) {
    EXPECT_TRUE(Attach(core::TaskId{id}));
    EXPECT_FALSE(Attach(core::TaskId{9}));
    servers_->Detach(core::TaskId{id}, 1);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("mps_refused"), std::string::npos);
  EXPECT_EQ(log.find("mps_refused"), log.rfind("mps_refused")) << log;
  EXPECT_EQ(log.find("mps_works_again"), std::string::npos) << log;
}

TEST_F(MpsServersTest, RemovesTheProcessesOfAClient) {
  ASSERT_TRUE(Attach(kFirst));
  fake_.Write("/clients", "11\n12\n13\n");
  bool done = false;
  servers_->TerminateClients(
      kFirst, 1, [](pid_t pid) { return pid != 12; }, [&] { done = true; });
  EXPECT_FALSE(done);
  ASSERT_TRUE(Until([&] { return done; }));
  const std::string server = std::string(base::Trim(fake_.Read("/server")));
  EXPECT_EQ(fake_.Read("/terminated"), server + " 11\n" + server + " 13\n");
}

TEST_F(MpsServersTest, AStopWaitsOnlyBrieflyForAHangingControlDaemon) {
  ASSERT_TRUE(Attach(kFirst));
  options_.terminate_limit = milliseconds(100);
  Open();
  servers_->Adopt({kFirst, 1, fake_.id});
  fake_.Write("/hang");
  int calls = 0;
  servers_->TerminateClients(
      kFirst, 1, [](pid_t) { return true; }, [&] { ++calls; });
  servers_->TerminateClients(
      kSecond, 1, [](pid_t) { return true; }, [&] { ++calls; });  // an unknown attempt
  ASSERT_TRUE(Until([&] { return calls == 2; }));
  fake_.Remove("/hang");
}

TEST_F(MpsServersTest, ReportsThatTheServerOfAClientDied) {
  ASSERT_TRUE(Attach(kFirst));
  EXPECT_FALSE(Evidence(kFirst).broke);
  KillServer();
  EXPECT_TRUE(Evidence(kFirst).broke);
  EXPECT_FALSE(Evidence(kSecond).broke) << "it is not a client";
  ASSERT_TRUE(Attach(kSecond)) << "it joins a new server";
  EXPECT_FALSE(Evidence(kSecond).broke);
  EXPECT_TRUE(Evidence(kFirst).broke);
}

TEST_F(MpsServersTest, AServerOutlivesItsControlDaemon) {
  ASSERT_TRUE(Attach(kFirst));
  const auto control = task::MpsControl(fake_.setup, fake_.id).Daemon();
  ASSERT_TRUE(control);
  ::kill(control->pid, SIGKILL);
  ASSERT_TRUE(Until([&] { return !base::Alive(*control); }));
  EXPECT_FALSE(Evidence(kFirst).broke);
  ASSERT_TRUE(Attach(kSecond));
  EXPECT_TRUE(DaemonRuns()) << "a new daemon has been started";
}

TEST_F(MpsServersTest, ReportsThatTheServerOfAClientHadAFault) {
  ASSERT_TRUE(Attach(kFirst));
  ASSERT_TRUE(Attach(kSecond));
  fake_.Write("/status", "FAULT\n");
  EXPECT_TRUE(Evidence(kFirst).broke);
  EXPECT_THAT(Attach(core::TaskId{3}).error().message, HasSubstr("faulted state"));
  fake_.Remove("/status");
  EXPECT_TRUE(Evidence(kSecond).broke) << "it was a client then, although the server works again";
  EXPECT_FALSE(Evidence(kFirst).blamed);
  servers_->Blame(kFirst, 1);
  EXPECT_FALSE(Evidence(kFirst).blamed) << "a client is not blamed for its own failure";
  EXPECT_EQ(Evidence(kSecond).blamed, kFirst);
  options_.backoff = milliseconds(0);
  Open();
  ASSERT_TRUE(Attach(core::TaskId{4}));
  EXPECT_FALSE(Evidence(core::TaskId{4}).broke) << "it joined later";
}

TEST_F(MpsServersTest, TheNextCarmadTakesOverServers) {
  ASSERT_TRUE(Attach(kFirst));
  options_.linger = milliseconds(1);
  Open();
  servers_->Adopt({kFirst, 1, fake_.id});
  servers_->TakeOver({fake_.id.gpus});
  EXPECT_FALSE(Evidence(kFirst).broke);
  KillServer();
  EXPECT_TRUE(Evidence(kFirst).broke);
  servers_->Detach(kFirst, 1);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

TEST_F(MpsServersTest, AServerThatIsSilentWhenTheNextCarmadStartsIsFoundLater) {
  ASSERT_TRUE(Attach(kFirst));
  options_.timeout = milliseconds(100);
  options_.probe = milliseconds(1);
  Open();
  fake_.Write("/hang");
  servers_->Adopt({kFirst, 1, fake_.id});
  EXPECT_FALSE(Evidence(kFirst).broke) << "nothing is known";
  const std::size_t asked = fake_.Read("/asked").size();
  EXPECT_TRUE(Until([&] { return fake_.Read("/asked").size() > asked; })) << "it is asked again";
  fake_.Remove("/hang");
  EXPECT_FALSE(Evidence(kFirst).broke);
  KillServer();
  EXPECT_TRUE(Evidence(kFirst).broke);
}

TEST_F(MpsServersTest, AServerThatEndedBetweenTwoRunsOfCarmadHasBroken) {
  ASSERT_TRUE(Attach(kFirst));
  KillServer();
  Open();
  servers_->Adopt({kFirst, 1, fake_.id});
  EXPECT_TRUE(Evidence(kFirst).broke);
}

TEST_F(MpsServersTest, AServerWithoutTasksEndsWhenOneOfItsGpusIsDrained) {
  fake_.id.gpus += ",GPU-second";
  ASSERT_TRUE(Attach(kFirst));
  servers_->Detach(kFirst, 1);
  Close("GPU-other");
  EXPECT_TRUE(DaemonRuns());
  Close("GPU-second");
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

TEST_F(MpsServersTest, AServerOfADrainedGpuEndsWithItsLastTask) {
  ASSERT_TRUE(Attach(kFirst));
  Close(fake_.id.gpus);
  EXPECT_FALSE(Evidence(kFirst).broke) << "it has a task";
  EXPECT_TRUE(DaemonRuns());
  servers_->Detach(kFirst, 1);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));

  fake_.id.gpus += ",GPU-second";
  ASSERT_TRUE(Attach(kFirst)) << "the other GPU is open";
  servers_->Detach(kFirst, 1);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); })) << "it was started after the drain";
}

TEST_F(MpsServersTest, AServerStaysForAWhileIfItsGpuWasOpenedAgain) {
  ASSERT_TRUE(Attach(kFirst));
  Close(fake_.id.gpus);
  closed_.clear();
  servers_->Detach(kFirst, 1);
  ASSERT_TRUE(Attach(kSecond));
  EXPECT_EQ(fake_.Read("/runs").find("-d"), fake_.Read("/runs").rfind("-d")) << "started once";
}

TEST_F(MpsServersTest, AServerLacksUnreadableGpusUntilItIsRestartedUnused) {
  const std::string first = fake_.id.gpus;
  const auto shows = [this](const std::string& gpus) {
    return fake_.Read("/variables").contains("CUDA_VISIBLE_DEVICES=" + gpus + "\n");
  };
  fake_.id.gpus = "GPU-broken," + first;
  readable_ = first;
  ASSERT_TRUE(Attach(kFirst, 0, first));
  EXPECT_TRUE(shows(first));
  readable_.clear();
  EXPECT_THAT(Attach(kSecond, 0, "GPU-broken").error().message, HasSubstr("so it lacks that GPU"));
  EXPECT_TRUE(Attach(core::TaskId{3}, 0, first)) << "no back-off";
  for (const core::TaskId id : {kFirst, core::TaskId{3}}) servers_->Detach(id, 1);
  fake_.Write("/clients", "4711\n");
  EXPECT_FALSE(Attach(kSecond, 0, "GPU-broken")) << "another process uses the server";
  fake_.Remove("/clients");
  EXPECT_TRUE(shows(first)) << "not restarted";
  ASSERT_TRUE(Attach(kSecond, 0, "GPU-broken"));
  EXPECT_TRUE(shows(fake_.id.gpus));
}

TEST_F(MpsServersTest, AnUnusedServerIsRestartedWithoutAGpuThatFailed) {
  const std::string first = fake_.id.gpus;
  const auto shows = [this](const std::string& gpus) {
    return fake_.Read("/variables").contains("CUDA_VISIBLE_DEVICES=" + gpus + "\n");
  };
  fake_.id.gpus = "GPU-broken," + first;
  ASSERT_TRUE(Attach(kFirst, 0, first));
  readable_ = first;
  EXPECT_TRUE(Attach(kSecond, 0, first)) << "the server is used";
  EXPECT_TRUE(shows(fake_.id.gpus)) << "not restarted";
  for (const core::TaskId id : {kFirst, kSecond}) servers_->Detach(id, 1);
  fake_.Write("/clients", "4711\n");
  EXPECT_TRUE(Attach(kFirst, 0, first)) << "another process uses the server";
  EXPECT_TRUE(shows(fake_.id.gpus)) << "not restarted";
  servers_->Detach(kFirst, 1);
  fake_.Remove("/clients");
  ASSERT_TRUE(Attach(kFirst, 0, first));
  EXPECT_TRUE(shows(first));
}

TEST_F(MpsServersTest, AFailedStartOfASharedServerAffectsAllUsers) {
  fake_.id = task::SharedMpsServer(fake_.id.gpus);
  ASSERT_FALSE(Attach(kFirst)) << "the program has no such option, or this user is not root";
  EXPECT_THAT(
      servers_->Troubles(),
      ::testing::ElementsAre(HasSubstr("MPS: no server for all users, so tasks take turns")));
}

TEST_F(MpsServersTest, ASharedServerOfOneGpuEndsWithItsDrain) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  fake_.id = task::SharedMpsServer(fake_.id.gpus);
  fake_.Write("/help", "  -M,--multiuser-server    Enable multi-user mode\n");
  ASSERT_TRUE(Attach(kFirst));
  servers_->Detach(kFirst, 1);
  EXPECT_TRUE(DaemonRuns());
  Close(fake_.id.gpus);
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

TEST_F(MpsServersTest, WhenCarmadEndsOnlyServersWithTasksRemain) {
  ASSERT_TRUE(Attach(kFirst));
  servers_->Close();
  EXPECT_TRUE(DaemonRuns());
  servers_->Detach(kFirst, 1);
  servers_->Close();
  EXPECT_FALSE(DaemonRuns());
}

TEST_F(MpsServersTest, UnusedServersOfAnEarlierCarmadEnd) {
  ASSERT_TRUE(Attach(kFirst));
  options_.linger = milliseconds(1);
  Open();
  servers_->TakeOver({fake_.id.gpus});
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

TEST_F(MpsServersTest, AnUnusedServerOfAnEarlierCarmadEndsAtOnceIfItsGpuIsDrained) {
  ASSERT_TRUE(Attach(kFirst));
  Open();
  closed_ = fake_.id.gpus;
  servers_->TakeOver({fake_.id.gpus});
  EXPECT_TRUE(Until([&] { return !DaemonRuns(); }));
}

}  // namespace
}  // namespace carma::daemon
