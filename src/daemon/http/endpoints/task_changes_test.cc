// Tests changes to tasks: cancel, hold, requeue, priority and edits.
#include "daemon/http/endpoints/tasks.h"

#include "api/changes_view.h"
#include "daemon/http/endpoints/tasks_fixture.h"
#include "store/fake_vfs.h"

namespace carma::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(TasksTest, ChangesTasksThatTheCoreDoesNotKnowYet) {
  std::vector<std::int64_t> indices;
  for (int i = 0; i < 1'005; ++i) indices.push_back(i);
  bool accepted = false;
  engine_->Submit(TaskList::Array(Spec(), indices), {kAda.uid, kAda.gid, kAda.user},
                  [&](const Result<Submitted>& answer) { accepted = answer.has_value(); });
  for (int turn = 0; turn < 10 && !accepted; ++turn) engine_->Turn();
  ASSERT_TRUE(accepted);
  ASSERT_EQ(engine_->scheduler().Find(core::TaskId{1'005}), nullptr);
  Change(kAda, "cancel", "1005");
  const std::shared_ptr<Heard> heard = last_heard_;
  for (int turn = 0; turn < 3; ++turn) engine_->Turn();
  EXPECT_EQ(heard->status, 200);
  EXPECT_EQ(heard->body.at("state"), "cancelled");
}

TEST_F(TasksTest, AChangeIsAnsweredWithTheTaskOnceItIsDurable) {
  SubmitHeld();
  EXPECT_EQ(Change(kAda, "release").body.at("state"), "launching") << "it can start immediately";
  Start(core::TaskId{1});
  EXPECT_EQ(Change(kRoot, "cancel").body.at("state"), "stopping");
  End(core::TaskId{1});
  EXPECT_EQ(store_->Get(core::TaskId{1})->record.state, core::TaskState::kCancelled);
  EXPECT_EQ(Change(kAda, "requeue").body.at("state"), "submitted");
}

TEST_F(TasksTest, TheHistoryNamesTheUserOfEachChange) {
  SubmitHeld();
  const auto edits = [this] {
    std::vector<std::string> texts;
    const auto events = store_->Events(core::TaskId{1}, std::nullopt, 100);
    for (const store::StoredEvent& each : *events) {
      if (each.kind == store::EventKind::kEdit) texts.push_back(each.text);
    }
    return texts;
  };
  Change(kRoot, "hold");
  EXPECT_THAT(edits(), IsEmpty()) << "it was already held";
  Change(kRoot, "release");
  Start(core::TaskId{1});
  End(core::TaskId{1});
  Change(kAda, "requeue");
  EXPECT_THAT(edits(), ElementsAre("release, by root", "requeue, by ada"));
}

TEST_F(TasksTest, RefusesChangesByOtherUsersOrInTheWrongState) {
  const core::TaskId id = Submit();
  const struct {
    Caller caller;
    const char* verb;
    const char* id;
    int status;
    const char* message;
  } cases[] = {
      {kEve, "cancel", "1", 403, "task 1 belongs to ada"},
      {kAda, "cancel", "2", 404, "2"},
      {kAda, "cancel", "one", 400, "'one' is not a task id (expected a positive whole number)"},
      {kAda, "hold", "1", 409, "task 1 is running: only a waiting task can be held"},
      {kAda, "release", "1", 409, "task 1 is running: only a waiting task can be released"},
      {kAda, "paint", "1", 404, "'paint': expected cancel, hold, release, requeue, or priority"},
  };
  Start(id);
  for (const auto& c : cases) {
    const Heard heard = Change(c.caller, c.verb, c.id);
    EXPECT_EQ(heard.status, c.status) << c.verb;
    EXPECT_THAT(heard.Message(), HasSubstr(c.message));
  }
  End(id);
  for (const char* verb : {"cancel", "hold", "release"})
    EXPECT_EQ(Change(kAda, verb).Message(), "task 1 has already succeeded");
}

TEST_F(TasksTest, RequeuedTasksCountForQueueLimits) {
  EngineOptions options;
  options.state_dir = state_dir_;
  options.policy.limits = {*core::ParseLimitRule("user=* queued=2")};
  engine_->Follow(options);
  engine_->Turn();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    EXPECT_EQ(core::Number(Submit()), id);
    Start(core::TaskId{id});
    End(core::TaskId{id});
  }
  const Heard heard =
      Ask(Services(), &ChangeTasks, By(kAda, "", "", R"({"verb":"requeue","tasks":[1,2,3,4]})"));
  EXPECT_EQ(heard.body.at("tasks").size(), 2U);
  ASSERT_EQ(heard.body.at("refused").size(), 2U);
  EXPECT_THAT(heard.body.at("refused")[0].at("message").get<std::string>(), HasSubstr("queued=2"));
}

TEST_F(TasksTest, ARunningTaskWithNoRequeueIsNotRequeued) {
  task::TaskSpec spec = Spec();
  spec.requeue = false;
  Start(Submit(spec));
  EXPECT_THAT(Change(kAda, "requeue").Message(), HasSubstr("task 1 has --no-requeue"));
  End(core::TaskId{1});
  EXPECT_EQ(Change(kAda, "requeue").body.at("state"), "submitted");
}

TEST_F(TasksTest, ChangesManyTasksAtOnceButJudgesEachSeparately) {
  for (int i = 0; i < 3; ++i) SubmitHeld();
  Change(kAda, "cancel", "2");
  const auto change = [&](const Caller& caller, const std::string& body) {
    return Ask(Services(), &ChangeTasks, By(caller, "", "", body));
  };
  const Heard eves = change(kEve, R"({"verb":"cancel","tasks":[1]})");
  EXPECT_EQ(eves.status, 200);
  EXPECT_TRUE(eves.body.at("tasks").empty());
  EXPECT_EQ(eves.body.at("refused")[0].at("code"), "denied");

  const Heard heard = change(kAda, R"({"verb":"cancel","tasks":[3,2,9,1,1]})");
  EXPECT_EQ(heard.status, 200);
  std::vector<int> changed;
  for (const base::Json& task : heard.body.at("tasks")) {
    EXPECT_EQ(task.at("state"), "cancelled");
    changed.push_back(task.at("id"));
  }
  EXPECT_THAT(changed, ::testing::ElementsAre(3, 1)) << "each task once";
  ASSERT_EQ(heard.body.at("refused").size(), 2U);
  EXPECT_EQ(heard.body.at("refused")[0].at("message"), "task 2 has already been cancelled");
  EXPECT_EQ(heard.body.at("refused")[1].at("code"), "not_found");
}

TEST_F(TasksTest, ManyChangesReadUnfinishedTasksFromMemory) {
  SubmitHeld();
  store::StoredTask row = store_->Get(core::TaskId{1}).value();
  row.user = "eve";
  ASSERT_TRUE(store_->Begin());
  ASSERT_TRUE(store_->PutTask(row));
  ASSERT_TRUE(store_->Commit());
  const Heard heard =
      Ask(Services(), &ChangeTasks, By(kAda, "", "", R"({"verb":"cancel","tasks":[1]})"));
  EXPECT_TRUE(heard.body.at("refused").empty()) << "the user comes from the core, not from the row";
}

TEST_F(TasksTest, AnInvalidChangeOfManyTasksChangesNothing) {
  SubmitHeld();
  std::string too_many = R"({"verb":"cancel","tasks":[1)";
  for (std::size_t i = 0; i < api::kMostChanges; ++i) too_many += ",1";
  const struct {
    std::string body;
    const char* message;
  } cases[] = {
      {R"({"verb":"paint","tasks":[1]})", "/verb: expected one of cancel, hold, release, requeue"},
      {R"({"tasks":[1]})", "/verb: expected"},
      {R"({"verb":"cancel","tasks":[]})", "/tasks: expected 1 to 1000 task numbers"},
      {R"({"verb":"cancel","tasks":[1,-1]})", "/tasks/1: expected a task number from 1"},
      {R"({"verb":"cancel","tasks":[1],"all":true})", "/all"},
      {too_many + "]}", "/tasks: expected 1 to 1000 task numbers"},
  };
  for (const auto& c : cases) {
    const Heard heard = Ask(Services(), &ChangeTasks, By(kAda, "", "", c.body));
    EXPECT_EQ(heard.status, 400) << c.body;
    EXPECT_THAT(heard.Message(), HasSubstr(c.message));
  }
  EXPECT_EQ(store_->Get(core::TaskId{1})->record.state, core::TaskState::kQueued);
}

TEST_F(TasksTest, OnlyAdministratorsMayRaiseAPriority) {
  SubmitHeld();
  const auto set = [&](const Caller& caller, const std::string& body) {
    return Ask(Services(), &SetPriority, By(caller, "1", "", body));
  };
  EXPECT_EQ(set(kAda, R"({"priority": -5})").body.at("priority"), -5);
  EXPECT_EQ(set(kRoot, R"({"priority": 5})").body.at("priority"), 5);
  EXPECT_EQ(set(kAda, R"({"priority": -1000000000})").body.at("priority"), -core::kMaxPriority)
      << "the same limit as for a submission";
  EXPECT_EQ(set(kAda, R"({"priority": -1000000001})").status, 400);
  EXPECT_EQ(set(kAda, R"({"priority": 1})").Message(),
            "only an administrator may raise a priority above 0");
  EXPECT_EQ(set(kEve, R"({"priority": -5})").status, 403);
  EXPECT_THAT(set(kAda, "5").Message(), HasSubstr("expected"));
  EXPECT_THAT(set(kAda, "{").Message(), HasSubstr("body: "));
  EXPECT_THAT(set(kAda, "{}").Message(), HasSubstr("priority"));
  engine_->Post(core::CancelRequested{core::TaskId{1}, "ada"});
  engine_->Turn();
  const Heard ended = set(kAda, R"({"priority": -5})");
  EXPECT_EQ(ended.status, 409);
  EXPECT_EQ(ended.Message(), "task 1 has already been cancelled");
}

TEST_F(TasksTest, EveryOptionOfAWaitingTaskCanBeEdited) {
  const core::TaskId id = SubmitHeld();
  const auto edit = [&](const Caller& caller, const std::string& body) {
    return Ask(Services(), &EditTask, By(caller, "1", "", body));
  };
  const Heard edited =
      edit(kAda, R"({"gpus":2,"time_limit_s":7200,"name":"again","memory_mib":9000,"comment":"more",
                "notify":[{"target":"https://h.org/secret"}]})");
  ASSERT_EQ(edited.status, 200) << edited.body.dump();
  EXPECT_EQ(edited.body.at("name"), "again");
  EXPECT_EQ(edited.body.at("gpus"), 2);
  EXPECT_EQ(edited.body.at("time_limit_s"), 7200);
  EXPECT_EQ(edited.body.at("notify")[0], "https://h.org/…: end");
  const store::StoredTask stored = store_->Get(id).value();
  EXPECT_EQ(stored.record.request->gpus, 2);
  EXPECT_EQ(stored.record.request->memory_mib, 9000);
  EXPECT_TRUE(stored.record.held);
  EXPECT_THAT(stored.spec_json, HasSubstr("\"comment\":\"more\""));
  EXPECT_THAT(stored.spec_json, HasSubstr("SECRET")) << "its environment stays";
  EXPECT_EQ(engine_->scheduler().Find(id)->state, core::TaskState::kQueued);
  const auto events = store_->Events(id, std::nullopt, 10).value();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().what, "edited");
  for (const char* change : {"--gpus 1 -> 2", "--time none -> 2:00:00", " -> 8.8G", " -> again"})
    EXPECT_THAT(events.back().text, HasSubstr(change)) << "in the form of carma edit";
  EXPECT_THAT(events.back().text, HasSubstr("by ada"));
  EXPECT_THAT(events.back().text, testing::Not(HasSubstr("secret")));
  EXPECT_EQ(edit(kAda, R"({"time_limit_s":null})").body.at("time_limit_s"), base::Json(nullptr));
}

TEST_F(TasksTest, TheDefaultTimeLimitFollowsTheClass) {
  EngineOptions options;
  options.state_dir = state_dir_;
  options.policy.limits = {*core::ParseLimitRule("user=* qos=interactive length=4h")};
  engine_->Follow(options);
  engine_->Turn();
  task::TaskSpec spec = Spec();
  spec.held = true;
  spec.qos = "interactive";
  const core::TaskId id = Submit(spec);
  const struct {
    const char* body;
    base::Json time_limit_s;
    const char* history;
  } edits[] = {
      {R"({"comment":"x"})", 14'400, " -> x, by ada"},
      {R"({"time_limit_s":3600})", 3'600, "--time 4:00:00 -> 1:00:00, by ada"},
      {R"({"time_limit_s":null})", 14'400, "--time 1:00:00 -> 4:00:00, by ada"},
      {R"({"qos":"normal"})", nullptr, "--qos interactive -> normal, --time 4:00:00 -> none"},
  };
  for (const auto& c : edits) {
    const Heard edited = Ask(Services(), &EditTask, By(kAda, "1", "", c.body));
    ASSERT_EQ(edited.status, 200) << edited.body.dump();
    EXPECT_EQ(edited.body.at("time_limit_s"), c.time_limit_s) << c.body;
    EXPECT_THAT(store_->Events(id, std::nullopt, 10).value().back().text, HasSubstr(c.history));
  }
}

TEST_F(TasksTest, ReportsConflictingChanges) {
  const core::TaskId id = SubmitHeld();
  int first = 0;
  ASSERT_TRUE(EditTask(Services(), By(kAda, "1", "", R"({"time_limit_s":60})"),
                       api::Responder([&](const api::Response& said) { first = said.status; })));
  const Heard second = Ask(Services(), &EditTask, By(kAda, "1", "", R"({"priority":-3})"));
  EXPECT_EQ(second.status, 503);
  EXPECT_EQ(second.Message(), "task 1 is being changed; try again");
  engine_->Turn();
  Settle();
  EXPECT_EQ(first, 200);
  EXPECT_EQ(Ask(Services(), &EditTask, By(kAda, "1", "", R"({"priority":-3})")).status, 200);
  EXPECT_EQ(engine_->scheduler().Find(id)->request->time_limit, base::Duration(60'000));
}

TEST_F(TasksTest, TheHistoryOfAnEditUsesTheOptionsOfCarmaEdit) {
  Submit();
  const core::TaskId id = SubmitHeld();
  ASSERT_EQ(Ask(Services(), &EditTask,
                By(kAda, "2", "",
                   R"({"dependencies":[{"task":1}],"exclusive":true,"host_memory_mib":2048,
                       "on_gpus":["0","1"],"begin_ms":86400000})"))
                .status,
            200);
  const std::string text = store_->Events(id, std::nullopt, 10).value().back().text;
  for (const char* change :
       {"--dependency none -> afterok:1", "--exclusive off -> on", "--mem none -> 2.0G",
        "--gpu none -> 0,1", "--begin none -> 1970-01-02T00:00:00.000Z"})
    EXPECT_THAT(text, HasSubstr(change));
  EXPECT_THAT(text, testing::Not(HasSubstr("_")));
  const std::size_t lines = store_->Events(id, std::nullopt, 10)->size();
  EXPECT_EQ(Ask(Services(), &EditTask, By(kAda, "2", "", R"({"exclusive":true})")).status, 200);
  EXPECT_EQ(store_->Events(id, std::nullopt, 10)->size(), lines) << "nothing changed";
}

TEST_F(TasksTest, ARunningTaskKeepsItsPlacementOptions) {
  const core::TaskId id = Submit();
  Start(id);
  const auto edit = [&](const std::string& body) {
    return Ask(Services(), &EditTask, By(kAda, "1", "", body));
  };
  EXPECT_EQ(edit(R"({"time_limit_s":60,"priority":-3})").body.at("priority"), -3);
  EXPECT_EQ(engine_->scheduler().Find(id)->request->time_limit, base::Duration(60'000));
  EXPECT_EQ(edit(R"({"gpus":2})").Message(),
            "task 1 is running; --gpus can be changed only while a task is waiting");
  EXPECT_EQ(edit(R"({"gpus":1})").status, 200) << "it has one";
}

TEST_F(TasksTest, RefusesATimeLimitThatHasPassed) {
  const core::TaskId id = Submit();
  Start(id);
  clock_.Advance(std::chrono::hours(5));
  const auto edit = [&](const std::string& body) {
    return Ask(Services(), &EditTask, By(kAda, "1", "", body));
  };
  const Heard refused = edit(R"({"time_limit_s":720})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.Message(), HasSubstr("so a time limit of 12:00 would end it immediately"));
  EXPECT_EQ(engine_->scheduler().Find(id)->request->time_limit, std::nullopt);
  EXPECT_EQ(edit(R"({"time_limit_s":43200})").status, 200);
}

TEST_F(TasksTest, RefusesASignalThatWouldBeDueBeforeTheStart) {
  task::TaskSpec spec = Spec();
  spec.time_limit = std::chrono::minutes(10);
  spec.signal = "USR1";
  spec.signal_before = std::chrono::minutes(2);
  Start(Submit(spec));
  const auto edit = [&](const std::string& body) {
    return Ask(Services(), &EditTask, By(kAda, "1", "", body));
  };
  const Heard refused = edit(R"({"time_limit_s":60})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.Message(),
              HasSubstr("due 2:00 before the time limit, but the limit is 1:00"));
  EXPECT_EQ(edit(R"({"signal_before_s":600})").status, 400);
  EXPECT_EQ(edit(R"({"signal_before_s":300})").status, 200);
  // As 'carma edit --signal' sends it.
  const auto signal = [&](const std::string& name) {
    return edit(R"({"signal_before_s":240,"signal_main":null,"signal":")" + name + "\"}");
  };
  EXPECT_EQ(signal("USR1").status, 200);
  EXPECT_EQ(engine_->scheduler().Find(core::TaskId{1})->request->signal_before,
            std::chrono::minutes(4));
  EXPECT_EQ(signal("USR2").Message(),
            "task 1 is running; --signal can be changed only while a task is waiting");
}

TEST_F(TasksTest, OnlyAdministratorsExtendATaskIntoAReservation) {
  task::TaskSpec spec = Spec();
  spec.time_limit = std::chrono::hours(1);
  Start(Submit(spec));
  ASSERT_TRUE(engine_->Book({.made_by = "root",
                             .users = {"eve"},
                             .from = clock_.Now() + std::chrono::hours(2),
                             .length = std::chrono::hours(1)}));
  Settle();
  const auto edit = [&](const Caller& caller, const std::string& body) {
    return Ask(Services(), &EditTask, By(caller, "1", "", body));
  };
  EXPECT_EQ(edit(kAda, R"({"time_limit_s":5400})").status, 200);
  for (const char* body : {R"({"time_limit_s":14400})", R"({"time_limit_s":null})"}) {
    const Heard refused = edit(kAda, body);
    EXPECT_EQ(refused.status, 409) << body;
    EXPECT_THAT(refused.Message(), HasSubstr("is reserved for eve from "));
    EXPECT_THAT(refused.Message(), HasSubstr("(reservation 1)"));
  }
  EXPECT_EQ(edit(kRoot, R"({"time_limit_s":14400})").status, 200);
  EXPECT_EQ(edit(kAda, R"({"time_limit_s":10800})").status, 200) << "it becomes shorter";
}

TEST_F(TasksTest, RefusedEditsExplainWhy) {
  SubmitHeld();
  const struct {
    Caller caller;
    const char* body;
    int status;
    const char* message;
  } cases[] = {
      {kEve, R"({"name":"x"})", 403, "task 1 belongs to ada"},
      {kAda, R"({"uid":0})", 400, "/uid: expected a field that can be changed"},
      {kAda, R"({"environment":{}})", 400, "/environment: expected a field"},
      {kRoot, R"({"notify":[{"target":"/bin/true"}]})", 403,
       "only the owner may change a task's notifications"},
      {kAda, "{}", 400, "expected an object with the fields"},
      {kAda, "[]", 400, "expected an object with the fields"},
      {kAda, R"({"gpus":-1})", 400, "/gpus: expected"},
      {kAda, R"({"gpus":9})", 409, "can never run here"},
      {kAda, R"({"memory_mib":99999})", 409, "can never run here"},
      {kAda, R"({"priority":5})", 403, "only an administrator may raise a priority"},
      {kAda, R"({"dependencies":[{"task":1}]})", 404, "task 1 cannot depend on task 1"},
      {kAda, R"({"dependencies":[{"task":7}]})", 404, "cannot depend on task 7: no such task"},
      {kAda, R"({"qos":"royal"})", 400, "royal"},
  };
  for (const auto& c : cases) {
    const Heard heard = Ask(Services(), &EditTask, By(c.caller, "1", "", c.body));
    EXPECT_EQ(heard.status, c.status) << c.body;
    EXPECT_THAT(heard.Message(), HasSubstr(c.message)) << c.body;
  }
  Change(kAda, "cancel");
  EXPECT_EQ(Ask(Services(), &EditTask, By(kAda, "1", "", R"({"name":"x"})")).Message(),
            "task 1 has already been cancelled");
}

TEST_F(TasksTest, RefusesAnEditToADependencyThatCanNeverBeMet) {
  const core::TaskId failed = Submit();
  Start(failed);
  End(failed, 1);
  const core::TaskId id = SubmitHeld();
  const auto edit = [&](const char* kind) {
    return Ask(
        Services(), &EditTask,
        By(kAda, "2", "", fmt::format(R"({{"dependencies":[{{"task":1,"kind":"{}"}}]}})", kind)));
  };
  const Heard refused = edit("afterok");
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.Message(), HasSubstr("task 1 had to succeed first, but it failed"));
  EXPECT_TRUE(engine_->scheduler().Find(id)->request->dependencies.empty());
  EXPECT_EQ(edit("afternotok").status, 200);
}

class FullDiskTest : public TasksTest {
 protected:
  void RetryTurnLater() override {}
  store::FakeVfs disk_;
};

TEST_F(FullDiskTest, AChangeTakesEffectLaterAndTheLogNamesItsUser) {
  const core::TaskId id = SubmitHeld();
  disk_.space_left = 0;
  ::testing::internal::CaptureStderr();
  const Heard first = Change(kAda, "cancel");
  const Heard second = Change(kRoot, "cancel");
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (const Heard& heard : {first, second}) {
    EXPECT_EQ(heard.status, 500);
    EXPECT_THAT(heard.Message(),
                HasSubstr("not written yet; the change takes effect once it can be written: "));
  }
  EXPECT_THAT(log, HasSubstr("event=store_failed"));
  EXPECT_THAT(log, HasSubstr("event=task_cancel task=1 owner=ada not_yet="));
  EXPECT_THAT(log, HasSubstr("user=ada"));
  EXPECT_THAT(log, HasSubstr("user=root"));
  EXPECT_EQ(store_->Get(id)->record.state, core::TaskState::kQueued);
  disk_.space_left.reset();
  Settle();
  EXPECT_EQ(store_->Get(id)->record.state, core::TaskState::kCancelled);
}

TEST_F(FullDiskTest, IsLoggedEvenIfASubmissionMeetsItFirst) {
  disk_.space_left = 0;
  ::testing::internal::CaptureStderr();
  bool refused = false;
  engine_->Submit({Spec()}, {kAda.uid, kAda.gid, kAda.user},
                  [&](const Result<Submitted>& answer) { refused = !answer; });
  engine_->Turn();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(refused);
  EXPECT_THAT(log, HasSubstr("event=store_failed"));
}

TEST_F(TasksTest, RefusesToRequeueATaskOfCarmaRun) {
  task::TaskSpec spec = Spec();
  spec.attach = "0123456789abcdef0123456789abcdef";
  Start(Submit(spec));
  End(core::TaskId{1});
  EXPECT_THAT(Change(kAda, "requeue").Message(), HasSubstr("task 1 was a 'carma run'"));
}

}  // namespace
}  // namespace carma::daemon
