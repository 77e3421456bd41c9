#include "daemon/http/endpoints/tasks.h"

#include "daemon/http/endpoints/tasks_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

TEST_F(TasksTest, ShowsATaskWithTheRemarksOnItsEstimate) {
  SubmitHeld();
  const Heard heard = Ask(Services(), &ShowTask, Asking({}, "1"));
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(heard.body.at("name"), "train");
  EXPECT_EQ(heard.body.at("estimate_remarks"), base::Json({"assumed Adam"}));
}

TEST_F(TasksTest, ShowsThatThePredictionWasLargerThanEveryGpu) {
  estimate_ = {99'000, "structural", 99'000};
  SubmitHeld();
  const Heard heard = Ask(Services(), &ShowTask, Asking({}, "1"));
  EXPECT_EQ(heard.body.at("predicted_mib"), 40'000) << "it is promised the largest GPU";
  ASSERT_EQ(heard.body.at("estimate_remarks").size(), 2U);
  EXPECT_THAT(heard.body.at("estimate_remarks").at(0).get<std::string>(),
              HasSubstr("No GPU here is large enough: the prediction is 96.7G per GPU, "));
}

TEST_F(TasksTest, AGpuThatIsNotManagedAnyMoreHasNoNumber) {
  const core::TaskId id = Submit();
  Start(id);
  store::StoredTask stored = store_->Get(id).value();
  const std::vector<std::int64_t> managed = View(Services(), stored, kAda).gpu_indices;
  ASSERT_EQ(managed.size(), 1U);
  stored.record.attempt.Edit().placement.push_back({core::GpuIndex{2}, 5'500});
  EXPECT_EQ(View(Services(), stored, kAda).gpu_indices, managed);
}

TEST_F(TasksTest, RefusesUnknownTasks) {
  EXPECT_EQ(Ask(Services(), &ShowTask, Asking({}, "7")).status, 404);
  EXPECT_EQ(Ask(Services(), &ShowTask, Asking({}, "-1")).status, 400);
  EXPECT_EQ(Ask(Services(), &ExplainTask, Asking({}, "7")).status, 404);
  EXPECT_EQ(Ask(Services(), &ExplainTask, Asking({}, "x")).status, 400);
}

TEST_F(TasksTest, AnswersWaitingCallersWhenTheTaskEnds) {
  const core::TaskId id = Submit();
  Start(id);
  EXPECT_EQ(Ask(Services(), &ShowTask, Asking({{"wait_s", "9999"}}, "1")).status, 400);
  EXPECT_EQ(Ask(Services(), &ShowTask, Asking({{"wait_s", "30"}}, "1")).status, 0);
  EXPECT_EQ(awaited_, 1U);
  EXPECT_EQ(wait_s_, 30);
  End(id);
  when_final_();
  EXPECT_EQ(last_heard_->body.at("state"), "succeeded");
  when_final_ = nullptr;
  EXPECT_EQ(Ask(Services(), &ShowTask, Asking({{"wait_s", "30"}}, "1")).status, 200);
  EXPECT_FALSE(when_final_) << "there is nothing to wait for";
}

TEST_F(TasksTest, ExplainsAWaitingTaskForEachGpu) {
  SubmitHeld();
  const Heard heard = Ask(Services(), &ExplainTask, Asking({}, "1"));
  EXPECT_EQ(heard.status, 200);
  EXPECT_EQ(heard.body.at("task").at("id"), 1);
  ASSERT_EQ(heard.body.at("gpus").size(), 2U);
  EXPECT_EQ(heard.body.at("gpus")[1].at("gpu"), 1);
  EXPECT_EQ(heard.body.at("gpus")[1].at("fit"), "fits");
}

TEST_F(TasksTest, ShowsADescriptionOnlyToItsOwnerAndAdministrators) {
  SubmitHeld();
  EXPECT_EQ(Ask(Services(), &ShowSpec, By(kAda, "1")).body.at("environment").at("SECRET"),
            "of its user");
  EXPECT_EQ(Ask(Services(), &ShowSpec, By(kRoot, "1")).status, 200);
  const Heard heard = Ask(Services(), &ShowSpec, By(kEve, "1"));
  EXPECT_EQ(heard.status, 403);
  EXPECT_EQ(heard.Message(), "task 1 belongs to ada");
}

TEST_F(TasksTest, OnlyTheOwnerReadsWhatATaskWroteToStderr) {
  const core::TaskId id = Submit();
  Start(id);
  launcher_.EmitExited(id, 1, 1, "KeyError: 'secret'\n");
  engine_->PollLauncher();
  engine_->Turn();
  ASSERT_THAT(store_->Get(id)->record.exit->detail, HasSubstr("secret"));
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->AddNotice({.task = id, .event = "end", .text = "n.sh: secret"}));
  ASSERT_TRUE(store_->Commit());
  const std::pair<Caller, bool> cases[] = {
      {kAda, true},
      {kRoot, true},
      {{kEve.uid, kEve.gid, "eve", true}, true},
      {kEve, false},
      {{kAda.uid, kAda.gid, "bob", false}, false},  // now has ada's UID
      {{kAda.uid, kAda.gid, "", false}, false},     // the user database does not respond
      {{}, false}};
  for (const auto& [caller, sees] : cases) {
    Call call = Asking({{"state", "all"}}, "1");
    call.caller = caller;
    const auto list = Ask(Services(), &ListTasks, call).body.at("tasks").at(0);
    call.request.query = {};
    const auto one = Ask(Services(), &ShowTask, call).body;
    const auto why = Ask(Services(), &ExplainTask, call).body;
    for (const base::Json& body : {list, one, why})
      EXPECT_EQ(body.dump().contains("secret"), sees) << caller.user << body.dump();
    EXPECT_THAT(one.at("reason_text").get<std::string>(), HasSubstr("Exit code 1"));
  }
}

TEST_F(TasksTest, AnotherUserWithAReusedUserIdDoesNotOwnTheTask) {
  SubmitHeld();
  const Caller bob{kAda.uid, kAda.gid, "bob", false};
  const Heard heard = Ask(Services(), &ShowSpec, By(bob, "1"));
  EXPECT_EQ(heard.status, 403);
  EXPECT_EQ(
      heard.Message(),
      "task 1 belongs to ada: user id 1000 belonged to ada at submission and now belongs to bob");
  EXPECT_EQ(Change(bob, "cancel").status, 403);
  const Caller unnamed{kAda.uid, kAda.gid, "1000", false};
  EXPECT_THAT(Change(unnamed, "cancel").Message(), HasSubstr("user ada no longer exists"));
  const Caller chief{kAda.uid, kAda.gid, "bob", true};
  const std::string notify = R"({"notify":[{"target":"/bin/true"}]})";
  EXPECT_EQ(Ask(Services(), &EditTask, By(chief, "1", "", notify)).status, 403)
      << "the program would run with an administrator's privileges";
  EXPECT_EQ(Change(chief, "cancel").status, 200);
}

TEST_F(TasksTest, ShowsWhenTheTimeSliceOfARunningTaskEnds) {
  EngineOptions options;
  options.state_dir = state_dir_;
  options.policy.slots.length = std::chrono::hours(12);
  options.policy.slots.without_checkpoint = core::WithoutCheckpoint::kEnd;
  engine_->Follow(options);
  const core::TaskId id = Submit();
  const auto shown = [&] { return Ask(Services(), &ShowTask, Asking({}, "1")).body; };
  EXPECT_TRUE(shown().at("turn_ends_ms").is_null()) << "it is not running";
  const base::Time started = clock_.Now();
  Start(id);
  EXPECT_EQ(shown().at("turn_ends_ms"), base::ToMs(started + std::chrono::hours(12)));
}

TEST_F(TasksTest, LogsWhyATaskWasEndedAndThatARunningTaskWasFound) {
  const core::TaskId id = Submit();
  ::testing::internal::CaptureStderr();
  Start(id);
  Start(id);  // as the launcher of a restarted carmad reports it
  Change(kAda, "cancel");
  End(id, 143);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=task_started task=1 attempt=1"));
  EXPECT_THAT(log, HasSubstr("event=task_found task=1 attempt=1"));
  EXPECT_THAT(log, HasSubstr("why=CancelledByUser"));
}

}  // namespace
}  // namespace carma::daemon
