#include "daemon/http/endpoints/handlers.h"

#include <unistd.h>

#include "daemon/http/endpoints/endpoint_fixture.h"
#include "daemon/http/endpoints/tasks.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

class LeasesTest : public EndpointTest {
 protected:
  void SetUp() override {
    EndpointTest::SetUp();
    leases_ =
        task::LeaseLauncher::Make(std::make_unique<task::FakeLauncher>(), {.daemon = 0}).value();
    engine_.reset();
    EngineOptions options;
    options.state_dir = state_dir_;
    engine_ = std::make_unique<Engine>(options, *store_, *leases_, clock_, *this);
    ASSERT_TRUE(
        engine_->Start({{"GPU-a", "A100", 41'000, 1'000}, {"GPU-b", "A100", 41'000, 1'000}}));
    Settle();
  }
  void TearDown() override {
    EndpointTest::TearDown();
    leases_.reset();
  }
  SharedServices Services() {
    EngineServices services = Basics();
    services.leases = leases_.get();
    services.when_lease_changes = [this](core::TaskId, int, std::function<void()> answer) {
      waiting_ = std::move(answer);
    };
    services.ask_name = [](std::uint32_t uid,
                           const std::function<void(Result<base::KnownUser>)>& call) {
      call(base::KnownUser{"user-" + std::to_string(uid)});
    };
    services.check_access = [this](const api::Peer& who, const std::string& name) {
      return who.uid == reader_ ? Result<Unit>(Denied("{} has read-only access", name)) : Unit{};
    };
    if (counted_) services.ask_claim = [this](std::uint64_t, const auto& call) { call(*counted_); };
    return Shared(std::move(services));
  }
  // A request by this process on behalf of its own user.
  Call Mine(const std::string& id, const std::string& body) const {
    Call call = By(me_, id, "", body);
    call.request.peer = api::Peer{me_.uid, me_.gid, ::getpid()};
    return call;
  }
  Heard Make(const std::string& more = "", const std::string& spec = "") {
    Heard heard;
    api::Response answer;
    const Call call =
        Mine("", R"({"spec":{"name":"x","command":["x"],"workdir":"/")" + spec + "}" + more + "}");
    const auto made = std::make_shared<std::optional<api::Response>>();
    const Result<Unit> asked = MakeLease(
        Services(), call, api::Responder([made](const api::Response& each) { *made = each; }));
    engine_->Turn();
    if (!asked)
      return {.status = api::ErrorResponse(asked.error()).status,
              .body = base::ParseJson(api::ErrorResponse(asked.error()).body).value()};
    if (*made) heard = {(*made)->status, base::ParseJson((*made)->body).value()};
    return heard;
  }
  Heard Show(const std::string& id) { return Ask(Services(), &ShowLease, Mine(id, "")); }

  Caller me_{::getuid(), ::getgid(), "me", false};
  std::unique_ptr<task::LeaseLauncher> leases_;
  std::function<void()> waiting_;
  // The job's claim in Slurm. Empty if the test does not connect the endpoints to Slurm.
  std::optional<Result<std::optional<std::int64_t>>> counted_;
  std::optional<std::uint32_t> reader_;  // a user who has only read access
};

// Each lease is read from the database, so a user who lists many of them must not delay others.
TEST_F(LeasesTest, AListTakesItsTurn) {
  EngineServices services = *Services();
  std::vector<std::function<void()>> turns;
  services.in_turn = [&](auto, std::function<void()> work) { turns.push_back(std::move(work)); };
  for (const Endpoint& endpoint : Endpoints({}, Shared(std::move(services)))) {
    if (endpoint.method == "GET" && endpoint.path == "/v1/leases") {
      EXPECT_TRUE(endpoint.handle(Asking({}), api::Responder([](const api::Response&) {})));
    }
  }
  EXPECT_EQ(turns.size(), 1U);
}

TEST_F(LeasesTest, ALeaseWaitsIsGrantedIsAdoptedAndEnds) {
  const Heard made = Make();
  ASSERT_EQ(made.status, 201) << made.body.dump();
  EXPECT_EQ(made.body.at("state"), "waiting");
  EXPECT_EQ(made.body.at("pid"), ::getpid());
  EXPECT_EQ(Ask(Services(), &AdoptLease, Mine("1", "")).status, 409)
      << "it cannot be adopted before it is granted";
  Settle();
  EXPECT_EQ(Show("1").body.at("state"), "granted");
  EXPECT_EQ(Show("1").body.at("gpu_uuids").size(), 1U);
  EXPECT_EQ(Ask(Services(), &EndLease, Mine("1", "")).status, 409) << "it has not been adopted";
  const Heard adopted = Ask(Services(), &AdoptLease, Mine("1", ""));
  ASSERT_EQ(adopted.status, 200) << adopted.body.dump();
  EXPECT_THAT(adopted.body.at("environment").at("CUDA_VISIBLE_DEVICES"), HasSubstr("GPU-"));
  EXPECT_EQ(Show("1").body.at("state"), "adopted") << "even before it is stored";
  EXPECT_EQ(Ask(Services(), &ListLeases, Asking({})).body.at("leases").size(), 1U);
  engine_->PollLauncher();
  engine_->Turn();
  EXPECT_EQ(store_->Get(core::TaskId{1})->record.state, core::TaskState::kRunning);
  EXPECT_EQ(Ask(Services(), &EndLease, Mine("1", R"({"exit_code":3})")).status, 200);
  ASSERT_TRUE(leases_->Leases().empty());
  EXPECT_EQ(Ask(Services(), &ListLeases, Asking({})).body.at("leases").size(), 1U)
      << "listed until its end is stored";
  engine_->PollLauncher();
  engine_->Turn();
  EXPECT_EQ(store_->Get(core::TaskId{1})->record.state, core::TaskState::kFailed);
  EXPECT_EQ(Show("1").body.at("state"), "ended");
  EXPECT_EQ(Ask(Services(), &EndLease, Mine("1", R"({"exit_code":0})")).status, 200);
  EXPECT_EQ(store_->Get(core::TaskId{1})->record.exit->code, 3) << "only the first report counts";
  EXPECT_TRUE(Ask(Services(), &ListLeases, Asking({})).body.at("leases").empty());
}

TEST_F(LeasesTest, ARepeatedRequestGetsTheSameLease) {
  EXPECT_EQ(Make(R"(,"request":"job-12")").status, 201);
  const Heard again = Make(R"(,"request":"job-12")");
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body.at("id"), 1);
}

TEST_F(LeasesTest, ALeaseAndATaskCannotShareARequestName) {
  const auto submit = [this](const std::string& name) {
    return Ask(Services(), &SubmitTasks,
               Mine("", R"({"request":")" + name +
                            R"(","spec":{"command":["true"],"workdir":"/","gpus":1}})"));
  };
  ASSERT_EQ(submit("x1").status, 201);
  const Heard lease = Make(R"(,"request":"x1")");
  EXPECT_EQ(lease.status, 409);
  EXPECT_EQ(lease.Message(), "request name 'x1' was already used for task 1, which is not a lease");
  ASSERT_EQ(Make(R"(,"request":"x2")").status, 201);
  const Heard task = submit("x2");
  EXPECT_EQ(task.status, 409);
  EXPECT_EQ(task.Message(), "request name 'x2' was already used for task 2, which is a lease");
}

TEST_F(LeasesTest, WarnsAboutANotificationThatCannotBeSent) {
  EngineOptions options;
  options.state_dir = state_dir_;
  options.notices.sendmail = "/no/sendmail";
  engine_->Follow(options);
  EXPECT_TRUE(Make().body.at("warnings").empty());
  const Heard heard = Make("", R"(,"notify":[{"target":"me"}])");
  ASSERT_EQ(heard.status, 201) << heard.body.dump();
  EXPECT_THAT(heard.body.at("warnings").at(0), HasSubstr("there is no program /no/sendmail"));
}

// A request by the keeper of a job step, which is this process. %U stands for the owner's UID.
constexpr char kStep[] =
    R"(,"key":{"cluster":"bed","job":12,"step":"batch"},"owner":{"uid":%U,"gid":7})";

std::string StepOf(std::uint32_t uid, const std::string& step = "batch") {
  std::string text = kStep;
  text.replace(text.find("%U"), 2, std::to_string(uid));
  text.replace(text.find("batch"), 5, step);
  return text;
}

TEST_F(LeasesTest, RootMayRequestALeaseForAnotherUsersStep) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to act as a user";
  me_ = {::getuid(), ::getgid(), "root", true};
  const Heard made = Make(StepOf(54'321));
  ASSERT_EQ(made.status, 201) << made.body.dump();
  EXPECT_EQ(made.body.at("user"), "user-54321");
  EXPECT_EQ(made.body.at("job"), 12);
  EXPECT_EQ(made.body.at("step"), "batch");
  const Heard again = Make(StepOf(54'321));
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body.at("id"), 1);
  const store::StoredTask stored = store_->Get(core::TaskId{1}).value();
  EXPECT_EQ(stored.record.request->uid, 54'321U);
  EXPECT_EQ(stored.gid, 7U);
  EXPECT_FALSE(stored.record.request->time_limit) << "Slurm enforces it and may extend it";
  EXPECT_EQ(Ask(Services(), &ListLeases, Asking({{"job", "12"}})).body.at("leases").size(), 1U);
  EXPECT_TRUE(Ask(Services(), &ListLeases, Asking({{"job", "13"}})).body.at("leases").empty());
  Settle();
  // Only descendants of the keeper belong to the step. Other processes are refused.
  Call foreign = Mine("1", R"({"pid":1})");
  foreign.caller = {0, 0, "root", true};
  EXPECT_EQ(Ask(Services(), &AdoptLease, foreign).status, 403);
  ASSERT_EQ(Ask(Services(), &AdoptLease, Mine("1", "")).status, 200);
  engine_->PollLauncher();
  engine_->Turn();
  const Heard ended = Ask(Services(), &EndLease,
                          Mine("1", R"({"exit_code":1,"stderr_tail":"CUDA out of memory"})"));
  EXPECT_EQ(ended.status, 200);
  engine_->PollLauncher();
  engine_->Turn();
  EXPECT_EQ(store_->Get(core::TaskId{1})->record.state, core::TaskState::kOutOfMemory);
}

TEST_F(LeasesTest, AJobWaitsUntilSlurmReportsItsClaim) {
  me_ = {::getuid(), ::getgid(), "root", true};
  counted_ = Unavailable("no answer");
  EXPECT_EQ(Make(StepOf(::getuid()), R"(,"memory_mib":4096)").status, 503)
      << "the plug-in tries again";
  counted_ = std::optional<std::int64_t>(10);
  ASSERT_EQ(Make(StepOf(::getuid()), R"(,"memory_mib":4096)").status, 201);
  EXPECT_THAT(store_->Get(core::TaskId{1})->spec_json, HasSubstr("10240"));
}

TEST_F(LeasesTest, AStepSharesTheLeaseOfItsJobsScript) {
  me_ = {::getuid(), ::getgid(), "root", true};
  ASSERT_EQ(Make(StepOf(::getuid())).status, 201);
  Settle();
  ASSERT_EQ(Ask(Services(), &AdoptLease, Mine("1", "")).status, 200);
  EXPECT_EQ(Make(StepOf(::getuid(), "0")).body.at("id"), 1);
  const Heard other = Make(StepOf(54'321, "1"));
  EXPECT_EQ(other.status, 201) << "it belongs to another user";
  EXPECT_EQ(other.body.at("id"), 2);
}

TEST_F(LeasesTest, OnlyRootRequestsLeasesForOthers) {
  me_ = {54'321, 54'321, "stranger", false};
  EXPECT_EQ(Make(StepOf(::getuid())).status, 403) << "forged";
  EXPECT_EQ(Make(StepOf(54'321)).status, 403) << "even for the caller's own user";
  me_ = {::getuid(), ::getgid(), "root", true};
  EXPECT_EQ(Make(R"(,"owner":{"uid":1,"gid":1})").status, 400) << "without a key";
  EXPECT_EQ(Make(StepOf(1, "a b")).status, 400);
  EXPECT_EQ(Make("", R"(,"lease_key":"bed 1 0 0 0")").status, 400);
}

TEST_F(LeasesTest, StepsOfUsersWithReadOnlyAccessGetNoLease) {
  me_ = {::getuid(), ::getgid(), "root", true};
  reader_ = 54'321;
  const Heard refused = Make(StepOf(54'321));
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.Message(), HasSubstr("user-54321 has read-only access"));
  EXPECT_FALSE(store_->Get(core::TaskId{1})) << "no task is left behind";
  EXPECT_EQ(Make(StepOf(::getuid())).status, 201) << "another user";
}

TEST_F(LeasesTest, AnswersWaitingCallersOnceTheLeaseIsGranted) {
  ASSERT_EQ(Make("", R"(,"held":true)").status, 201);
  Settle();
  const auto answered = std::make_shared<bool>(false);
  Call call = Mine("1", "");
  call.request.query = {{"wait_s", "30"}};
  ASSERT_TRUE(ShowLease(Services(), call,
                        api::Responder([answered](const api::Response&) { *answered = true; })));
  EXPECT_FALSE(*answered);
  ASSERT_TRUE(waiting_);
  std::exchange(waiting_, nullptr)();
  EXPECT_TRUE(*answered);
}

TEST_F(LeasesTest, RefusesStrangersAndInvalidRequests) {
  ASSERT_EQ(Make().status, 201);
  const Caller stranger{54'321, 54'321, "stranger", false};
  EXPECT_EQ(Ask(Services(), &AdoptLease, By(stranger, "1")).status, 403);
  EXPECT_EQ(Ask(Services(), &EndLease, By(stranger, "1")).status, 403);
  EXPECT_EQ(Ask(Services(), &ShowLease, By(stranger, "1")).status, 403);
  EXPECT_EQ(Ask(Services(), &AdoptLease, By(me_, "1")).status, 409) << "no process is named";
  EXPECT_EQ(Make(R"(,"pid":4194000)").status, 409);
  EXPECT_EQ(Make(R"(,"pid":0)").status, 400);
  if (::getuid() == 0) {
    EXPECT_EQ(Make(R"(,"pid":1)").status, 409) << "every process is a descendant of it";
  }
  EXPECT_EQ(Make("", R"(,"array_index":3)").status, 400);
  EXPECT_EQ(Make(R"(,"other":1)").status, 400);
  const core::TaskId task = SubmitHeld();
  Call call = By(kAda, std::to_string(core::Number(task)));
  EXPECT_THAT(Ask(Services(), &ShowLease, call).Message(), HasSubstr("is not a lease"));
}

}  // namespace
}  // namespace carma::daemon
