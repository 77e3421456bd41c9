#include "lab/simgpu/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "base/file.h"
#include "base/rng.h"
#include "lab/simgpu/server_fixture.h"

namespace carma::simgpu {
namespace {

Arrival ArrivalOf(std::int64_t memory_mib, double u = 0.3, double work_s = 100) {
  return {.pid = ::getpid(),
          .sharing = core::SharingMethod::kMps,
          .sensitivity = 0.5,
          .pressure = 0.4,
          .work_s = work_s,
          .shares = {{0, memory_mib, u}}};
}

class StateTest : public ::testing::Test {
 protected:
  // Attaches a second view of the same server, as another process would, with a clock that the test
  // controls.
  std::unique_ptr<Server> Attach() {
    auto server = Server::Attach(server_.path(), [this] { return now_s_; });
    EXPECT_TRUE(server) << server.error().message;
    return std::move(*server);
  }
  static std::unique_ptr<Residency> Join(Server& server, const Arrival& arrival) {
    std::optional<Shortage> shortage;
    auto residency = server.Join(arrival, shortage);
    EXPECT_TRUE(residency) << residency.error().message;
    EXPECT_FALSE(shortage);
    return std::move(*residency);
  }

  TestServer server_{"2xA100-40GB"};
  double now_s_ = 0;
};

TEST(ShapeOf, ReturnsTheShapeOfCreateServer) {
  for (const auto& [shape, normal] :
       {std::pair("4xa100-40gb", "4xA100-40GB"),
        std::pair("A100-40GB, 2xH100-80GB", "1xA100-40GB,2xH100-80GB"),
        std::pair("A100-40GB,A100-40GB", "2xA100-40GB"),
        std::pair("2xA100-80GB:mig=3g.40gb+1g.10gb", "2xA100-80GB:mig=1g.10gb+3g.40gb"),
        std::pair("A100-40GB,A100-40GB:mig=", "1xA100-40GB,1xA100-40GB:mig=")}) {
    const TestServer server(shape);
    EXPECT_EQ(NormalShape(shape), normal);
    EXPECT_EQ(ShapeOf(**Server::Attach(server.path())), normal);
  }
  EXPECT_FALSE(NormalShape("nonsense"));
}

TEST_F(StateTest, ProcessesSeeOneWorldAndOneClock) {
  auto mine = Attach(), yours = Attach();
  auto a = Join(*mine, ArrivalOf(10'000));
  now_s_ = 20;
  auto b = Join(*yours, ArrivalOf(5'000));
  EXPECT_EQ(mine->Look(0)->used_mib, 15'000);
  now_s_ = 32;
  // The task works alone for 20 s, then at a speed of 1 / (1 + 0.5 * 0.4) for 12 s.
  EXPECT_NEAR(a->Look()->work_left_s, 70, 1e-9);
  EXPECT_NEAR(b->Look()->work_left_s, 90, 1e-9);
  b.reset();
  now_s_ = 42;
  EXPECT_NEAR(a->Look()->work_left_s, 60, 1e-9);
  EXPECT_EQ(yours->Look(0)->used_mib, 10'000);
  a.reset();
  EXPECT_EQ(mine->Look(0)->used_mib, 0);
  EXPECT_THAT(*mine->Residents(), ::testing::IsEmpty());
}

TEST_F(StateTest, RefusesAProcessThatDoesNotFitAndKeepsTheResidents) {
  auto server = Attach();
  auto resident = Join(*server, ArrivalOf(30'000));
  std::optional<Shortage> shortage;
  auto refused = server->Join(ArrivalOf(10'537), shortage);
  ASSERT_TRUE(refused);
  EXPECT_EQ(*refused, nullptr);
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->free_mib, 10'536);
  const Share more[] = {{0, 20'000, 0}};
  const auto grown = resident->Grow(more);
  ASSERT_TRUE(grown);
  EXPECT_TRUE(*grown);
  EXPECT_EQ(server->Look(0)->used_mib, 30'000);
  EXPECT_NEAR(resident->Look()->pace, 1, 1e-12);
}

// ---- limits of control groups ----

class LimitTest : public ::testing::Test {
 protected:
  static Arrival In(const std::string& group, std::int64_t memory_mib,
                    core::SharingMethod sharing = core::SharingMethod::kStreams) {
    Arrival arrival = ArrivalOf(memory_mib);
    arrival.group = group;
    arrival.sharing = sharing;
    return arrival;
  }
  void Limit(const std::string& group, std::int64_t soft_mib, std::int64_t hard_mib) {
    GroupLimit limit{};
    group.copy(limit.group, kGroupBytes - 1);
    limit.soft_mib = soft_mib;
    limit.hard_mib = hard_mib;
    const auto set = server_->LimitGroup(limit);
    EXPECT_TRUE(set) << set.error().message;
  }
  std::unique_ptr<Residency> Join(const Arrival& arrival) {
    shortage_.reset();
    auto residency = server_->Join(arrival, shortage_);
    EXPECT_TRUE(residency) << residency.error().message;
    return residency ? std::move(*residency) : nullptr;
  }

  TestServer file_{"2xA100-40GB,A100-40GB:mig=1g.5gb", {.memory_limits = true}};
  std::unique_ptr<Server> server_ = std::move(*Server::Attach(file_.path(), [] { return 0.0; }));
  std::optional<Shortage> shortage_;
};

TEST_F(LimitTest, LimitsApplyToAllProcessesOfAGroupTogether) {
  Limit("/g/a", 5'000, 6'000);
  const auto first = Join(In("/g/a", 4'000));
  const auto below = Join(In("/g/a/worker", 1'500));
  ASSERT_TRUE(first && below);
  const auto stranger = Join(In("/g/ab", 4'000));
  EXPECT_TRUE(stranger) << "a group with a similar name";
  EXPECT_FALSE(Join(In("/g/a", 501)));
  EXPECT_EQ(shortage_->free_mib, 500);
  EXPECT_EQ(shortage_->usable_mib, 6'000) << "the limit counts as the GPU's memory";
  const std::vector<Share> more = {{0, 501, 0}};
  EXPECT_TRUE(*first->Grow(more)) << "the limit also applies to growth";
  EXPECT_EQ(server_->LookAtGroup(0, "/g/a")->used_mib, 5'500);
  EXPECT_EQ(server_->LookAtGroup(0, "/g/a")->soft_mib, 5'000);
  EXPECT_EQ(server_->MemoryOf(0, "/g/a")->total_mib, 6'000);
  EXPECT_EQ(server_->MemoryOf(0, "/g/a")->free_mib, 500);
  EXPECT_EQ(server_->MemoryOf(0, "/g/a/worker")->total_mib, 40'960) << "a parent's limit is hidden";
  EXPECT_EQ(server_->MemoryOf(0, "/g/a/worker")->free_mib, 500) << "but it still applies";
  EXPECT_EQ(server_->MemoryOf(1, "/g/a")->total_mib, 40'960) << "the limit applies to one GPU only";
}

TEST_F(LimitTest, LimitsCanBeRaisedLoweredAndRemoved) {
  Limit("/g/a", 1'000, 2'000);
  const auto task = Join(In("/g/a", 2'000));
  const std::vector<Share> more = {{0, 1'000, 0}};
  EXPECT_TRUE(*task->Grow(more));
  Limit("/g/a", 1'000, 3'000);
  EXPECT_FALSE(*task->Grow(more));
  Limit("/g/a", 500, 1'000);
  EXPECT_EQ(server_->MemoryOf(0, "/g/a")->free_mib, 0) << "memory in use is kept";
  EXPECT_EQ(server_->LookAtGroup(0, "/g/a")->used_mib, 3'000);
  Limit("/g/a", 0, kNoLimitMib);
  EXPECT_FALSE(*task->Grow(more));
  EXPECT_TRUE(server_->GroupLimits()->empty());
}

TEST_F(LimitTest, UnderMpsClientsAboveTheirSoftLimitAreEvicted) {
  constexpr auto kMps = core::SharingMethod::kMps;
  Limit("/g/a", 10'000, 40'000);
  Limit("/g/b", 20'000, 30'000);
  const auto borrower = Join(In("/g/a", 30'000, kMps));
  ASSERT_TRUE(borrower);
  EXPECT_FALSE(Join(In("/g/b", 21'000, kMps))) << "a borrower cannot evict others";
  EXPECT_FALSE(Join(In("/g/b", 15'000))) << "without MPS, no process is evicted";
  EXPECT_FALSE(borrower->Look()->evicted);
  const auto owner = Join(In("/g/b", 15'000, kMps));
  EXPECT_TRUE(owner);
  EXPECT_TRUE(borrower->Look()->evicted);
  EXPECT_EQ(server_->Look(0)->used_mib, 15'000);
}

TEST_F(LimitTest, LimitsAreRefusedOnDividedGpusAndOlderDrivers) {
  GroupLimit limit{};
  std::string("/g/a").copy(limit.group, kGroupBytes - 1);
  for (const int place : {2, 3}) {
    limit.gpu = place;
    EXPECT_EQ(server_->LimitGroup(limit).error().code, ErrorCode::kInvalid);
  }
  const TestServer old{"1xA100-40GB"};
  auto server = Server::Attach(old.path());
  limit.gpu = 0;
  EXPECT_EQ((*server)->LimitGroup(limit).error().code, ErrorCode::kInvalid);
}

TEST_F(StateTest, RefusesMeaninglessShares) {
  auto server = Attach();
  const std::vector<Share> cases[] = {
      {}, {{2, 1, 0}}, {{-1, 1, 0}}, {{0, -1, 0}}, {{0, 1, 0}, {0, 1, 0}}};
  for (const std::vector<Share>& shares : cases) {
    Arrival arrival = ArrivalOf(1);
    arrival.shares = shares;
    std::optional<Shortage> shortage;
    const auto joined = server->Join(arrival, shortage);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::kInvalid);
  }
}

// Runs `child` in a forked process with its own Server. The constructor returns once `child` has
// called the function passed as its second argument.
class Child {
 public:
  Child(const std::string& path,
        const std::function<void(Server&, const std::function<void()>&)>& child) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      auto server = Server::Attach(path, [] { return 1.0; });
      if (!server) ::_exit(1);
      child(**server, [&] { (void)!::write(ends[1], "r", 1); });
      ::_exit(0);
    }
    ::close(ends[1]);
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
  }
  // Kills the child and waits until it is a zombie, but does not reap it.
  void KillAndLeaveUnreaped() {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST_F(StateTest, TheMemoryOfAKilledProcessIsFreeEvenBeforeItIsReaped) {
  auto server = Attach();
  now_s_ = 1;
  Child child(server_.path(), [](Server& theirs, const std::function<void()>& ready) {
    std::optional<Shortage> shortage;
    const auto residency = theirs.Join(ArrivalOf(7'000), shortage);
    ready();
    ::pause();
  });
  EXPECT_EQ(server->Look(0)->used_mib, 7'000);
  const std::uint32_t before = server->Generation();
  child.KillAndLeaveUnreaped();
  EXPECT_EQ(server->Look(0)->used_mib, 0);
  EXPECT_NE(server->Generation(), before);
}

TEST_F(StateTest, AProcessThatSimplyExitsFreesItsMemoryToo) {
  auto server = Attach();
  Child child(server_.path(), [](Server& theirs, const std::function<void()>& ready) {
    std::optional<Shortage> shortage;
    auto* leaked = theirs.Join(ArrivalOf(7'000), shortage)->release();
    (void)leaked;
    ready();
    ::_exit(3);
  });
  int status = 0;
  ::waitpid(child.pid(), &status, 0);
  EXPECT_EQ(server->Look(0)->used_mib, 0);
}

TEST_F(StateTest, AForkedChildDoesNotFreeItsParentsMemory) {
  auto server = Attach();
  auto residency = Join(*server, ArrivalOf(7'000));
  const pid_t child = ::fork();
  if (child == 0) {
    residency.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(server->Look(0)->used_mib, 7'000);
}

TEST_F(StateTest, SurvivesAProcessThatDiesDuringAChange) {
  auto server = Attach();
  now_s_ = 1;
  auto witness = Join(*server, ArrivalOf(1'000, 0.3, 1e6));
  base::Rng rng(7);
  for (int round = 0; round < 60; ++round) {
    Child child(server_.path(), [](Server& theirs, const std::function<void()>& ready) {
      ready();
      const Share more[] = {{0, 10, 0}};
      while (true) {
        std::optional<Shortage> shortage;
        const auto residency = theirs.Join(ArrivalOf(100), shortage);
        (void)(*residency)->Grow(more);
        (void)(*residency)->Stop();
      }
    });
    for (std::uint64_t spin = rng.Below(200'000); spin > 0; --spin) asm volatile("");
    child.KillAndLeaveUnreaped();
    const auto look = server->Look(0);
    ASSERT_TRUE(look) << look.error().message;
    ASSERT_EQ(look->used_mib, 1'000);
    ASSERT_NEAR(witness->Look()->pace, 1, 1e-12);
  }
}

TEST_F(StateTest, WaitingEndsWithAnyChangeAndWithAPoke) {
  auto server = Attach();
  const std::uint32_t seen = server->Generation();
  std::thread other([&] {
    auto theirs = Attach();
    auto residency = Join(*theirs, ArrivalOf(1));
  });
  other.join();
  EXPECT_NE(server->Generation(), seen);
  server->Wait(seen, 1e18);  // returns immediately, because the world has changed
  const std::uint32_t again = server->Generation();
  server->Poke();
  server->Wait(again, 1e18);
  server->Wait(server->Generation(), now_s_);  // returns immediately, because until_s has passed
}

TEST_F(StateTest, RefusesBrokenFilesAndKeepsThem) {
  struct Case {
    const char* name;
    std::function<void(std::string&)> spoil;
    ErrorCode expected;
  };
  const Case cases[] = {
      {"empty", [](std::string& s) { s.clear(); }, ErrorCode::kCorrupt},
      {"torn", [](std::string& s) { s.resize(s.size() / 2); }, ErrorCode::kCorrupt},
      {"too long", [](std::string& s) { s += "x"; }, ErrorCode::kCorrupt},
      {"another format", [](std::string& s) { s[0] = 'X'; }, ErrorCode::kCorrupt},
      {"another version", [](std::string& s) { s[8] = 99; }, ErrorCode::kCorrupt},
      {"another boot", [](std::string& s) { s[16] = 'z'; }, ErrorCode::kCorrupt},
  };
  const std::string good = *base::ReadFile(server_.path(), 1 << 24);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::string bytes = good;
    c.spoil(bytes);
    const std::string path = server_.path() + ".bad";
    ASSERT_TRUE(base::WriteFileAtomic(path, bytes));
    const auto server = Server::Attach(path);
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, c.expected);
    EXPECT_THAT(server.error().message, ::testing::HasSubstr(path));
    EXPECT_EQ(*base::ReadFile(path, 1 << 24), bytes);
  }
  EXPECT_EQ(Server::Attach(server_.path() + ".none").error().code, ErrorCode::kNotFound);
}

TEST_F(StateTest, ReportsARemovedOrTornServer) {
  auto server = Attach();
  ASSERT_EQ(::truncate(server_.path().c_str(), 100), 0);
  LetFileCheckExpire();
  EXPECT_EQ(server->Look(0).error().code, ErrorCode::kCorrupt);
  ASSERT_EQ(::unlink(server_.path().c_str()), 0);
  LetFileCheckExpire();
  EXPECT_EQ(server->Look(0).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(server->FaultOn(0, "").error().code, ErrorCode::kNotFound);
}

TEST_F(StateTest, DoesNotReplaceAServerInUse) {
  auto server = Attach();
  auto residency = Join(*server, ArrivalOf(1));
  const auto refused = CreateServer(server_.path(), "1xA100-40GB", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  residency.reset();
  EXPECT_TRUE(CreateServer(server_.path(), "1xA100-40GB", {}));
  LetFileCheckExpire();
  EXPECT_EQ(server->Look(0).error().code, ErrorCode::kNotFound) << "the old server is gone";
}

TEST_F(StateTest, RefusesInvalidOptions) {
  for (const double scale : {0.0, -1.0, 1e7, std::nan("")}) {
    EXPECT_EQ(CreateServer(server_.path(), "1xA100-40GB", {.time_scale = scale}).error().code,
              ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace carma::simgpu
