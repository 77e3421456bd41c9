#include "daemon/http/endpoints/tasks.h"

#include <fmt/format.h>

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

using base::Json;
using ::testing::HasSubstr;

Json SpecJson() {
  return {{"name", "train"},
          {"command", {"true"}},
          {"workdir", "/"},
          {"stdout_path", "/dev/null"},
          {"environment", Json::object()}};
}

class SubmitTest : public EndpointTest {
 protected:
  void SetUp() override {
    EndpointTest::SetUp();
    settings_.max_batch = 3;
  }
  SharedServices Services() {
    EngineServices services = Basics();
    services.aside = [this](std::function<void()> read, std::function<void()> then) {
      work_ = [read, then] {
        read();
        then();
      };
    };
    services.estimate = [this](std::vector<EstimateJob> jobs, EstimateService::Take take) {
      asked_ = std::move(jobs);
      take_ = std::move(take);
    };
    return Shared(std::move(services));
  }
  Heard Submit(const Json& body, const Caller& caller = kAda) {
    return Ask(Services(), &SubmitTasks, By(caller, "", "", base::DumpJson(body)));
  }
  Heard Check(const Json& body, const char* check = "1") {
    Call call = By(kAda, "", "", base::DumpJson(body));
    call.request.query = {{"check", check}};
    return Ask(Services(), &SubmitTasks, call);
  }
  static EstimateResult Found(std::uint64_t id, std::optional<core::Estimate> estimate) {
    EstimateResult result;
    result.id = core::TaskId{id};
    result.estimate = std::move(estimate);
    return result;
  }

  std::vector<EstimateJob> asked_;
  EstimateService::Take take_;
};

TEST_F(SubmitTest, AnswersWithTheCallersTasksOnceTheyAreDurable) {
  Json second = SpecJson();
  second["name"] = "other";
  const Heard heard = Submit({{"tasks", {SpecJson(), second}}});
  EXPECT_EQ(heard.status, 201);
  EXPECT_EQ(heard.body, Json({{"first", 1}, {"count", 2}}));
  const store::StoredTask stored = store_->Get(core::TaskId{2}).value();
  EXPECT_EQ(stored.name, "other");
  EXPECT_EQ(stored.user, "ada");
  EXPECT_EQ(stored.record.request->uid, kAda.uid);
}

TEST_F(SubmitTest, WarnsAboutANotificationThatCannotBeSent) {
  Json notifies = SpecJson();
  notifies["notify"] = {{{"target", "me"}}};
  EngineOptions options;
  options.state_dir = state_dir_;
  options.notices.sendmail = "/no/sendmail";
  engine_->Follow(options);
  const Heard heard = Submit({{"tasks", {SpecJson(), notifies}}});
  EXPECT_EQ(heard.status, 201);
  EXPECT_THAT(heard.body.at("warnings").at(0), HasSubstr("there is no program /no/sendmail"));
}

TEST_F(SubmitTest, WarnsThatServingNeedsMps) {
  Json serves = SpecJson();
  serves["serve"] = true;
  EXPECT_FALSE(Submit({{"spec", serves}}).body.contains("warnings"));
  EXPECT_EQ(store_->Get(core::TaskId{1})->record.request->max_slowdown, 1.25);
  EngineOptions options;
  options.state_dir = state_dir_;
  options.policy.sharing = core::SharingMethod::kStreams;
  engine_->Follow(options);
  Settle();
  const Heard heard = Submit({{"spec", serves}});
  ASSERT_TRUE(heard.body.contains("warnings")) << heard.body;
  EXPECT_EQ(heard.body["warnings"][0],
            "--serve: this server does not use MPS, so the task has no priority over its "
            "neighbours; its --max-slowdown still applies");
}

TEST_F(SubmitTest, CommonFieldsAreStatedOnce) {
  Json common = SpecJson();
  common.erase("name");
  EXPECT_EQ(Submit({{"tasks", {{{"name", "a"}}, {{"name", "b"}}}}, {"common", common}}).status,
            201);
  EXPECT_EQ(store_->Get(core::TaskId{2})->name, "b");
}

TEST_F(SubmitTest, AnArrayHasOneDescriptionAndItsIndices) {
  EXPECT_EQ(Submit({{"spec", SpecJson()}, {"array", {0, 7}}}).body.at("count"), 2);
  EXPECT_THAT(store_->Get(core::TaskId{2})->spec_json, HasSubstr("\"array_index\":7"));
  EXPECT_EQ(Submit({{"spec", SpecJson()}}).body.at("count"), 1);
}

TEST_F(SubmitTest, RefusesInvalidSubmissionsAsAWhole) {
  Json kill_signal = SpecJson();
  kill_signal["checkpoint_signal"] = "KILL";
  Json early_signal = SpecJson();
  early_signal.update({{"signal", "USR1"}, {"signal_before_s", 600}, {"time_limit_s", 600}});
  const struct {
    Json body;
    const char* message;
  } cases[] = {
      {{{"tasks", {SpecJson(), {{"name", 5}}}}}, "/tasks/1"},
      {{{"tasks", Json::array()}}, "body: 0 tasks in one submission, expected 1 to 3"},
      {{{"tasks", Json::array({1, 2, 3, 4})}}, "body: 4 tasks in one submission"},
      {{{"tasks", {SpecJson()}}, {"spec", SpecJson()}}, "body: expected {\"tasks\""},
      {{{"spec", SpecJson()}, {"common", Json::object()}}, "body: expected {\"tasks\""},
      {{{"spec", SpecJson()}, {"array", {1, 1}}}, "/array/1: expected distinct whole numbers"},
      {{{"spec", SpecJson()}, {"array", {-1}}}, "/array/0: expected distinct whole numbers"},
      {{{"tasks", {SpecJson()}}, {"user", "root"}}, "user"},
      {{{"tasks", {kill_signal}}},
       "checkpoint_signal: expected a signal that a program can handle"},
      {{{"tasks", {early_signal}}},
       "--signal is due 10:00 before the time limit, but the limit is 10:00"},
  };
  for (const auto& c : cases) {
    const Heard heard = Submit(c.body);
    EXPECT_EQ(heard.status, 400) << c.body;
    EXPECT_THAT(heard.Message(), HasSubstr(c.message));
  }
  const Heard broken = Ask(Services(), &SubmitTasks, By(kAda, "", "", "{"));
  EXPECT_THAT(broken.Message(), HasSubstr("body: "));
  EXPECT_FALSE(store_->Get(core::TaskId{1}));
}

TEST_F(SubmitTest, ANamedSubmissionMayBeRepeated) {
  const Json named = {{"spec", SpecJson()}, {"request", "0b9c-1"}};
  EXPECT_EQ(Submit(named).body, Json({{"first", 1}, {"count", 1}}));
  EXPECT_EQ(Submit(named).body, Json({{"first", 1}, {"count", 1}}));
  EXPECT_FALSE(store_->Get(core::TaskId{2}));
  EXPECT_EQ(Submit({{"tasks", {SpecJson(), SpecJson()}}, {"request", "0b9c-1"}}).Message(),
            "request name '0b9c-1' was already used for a submission of 1 task");
  EXPECT_THAT(Submit({{"spec", SpecJson()}, {"request", "two words"}}).Message(),
              HasSubstr("request: expected 1 to 64 letters"));
}

TEST_F(SubmitTest, ALargeBodyIsReadOffTheLoop) {
  Json large = SpecJson();
  large["environment"]["A"] = std::string(100'000, 'x');
  large["environment"]["B"] = std::string(100'000, 'x');
  EXPECT_EQ(Submit({{"spec", large}}).status, 0);
  const std::shared_ptr<Heard> heard = last_heard_;
  std::exchange(work_, nullptr)();
  Settle();
  EXPECT_EQ(heard->status, 201);
  large["priority"] = 5;
  Submit({{"spec", large}});
  std::exchange(work_, nullptr)();
  EXPECT_EQ(last_heard_->status, 403);
  std::string empty = "{\"tasks\":[[]";
  for (int i = 0; i < 2'000'000; ++i) empty += ",[]";
  Ask(Services(), &SubmitTasks, By(kAda, "", "", empty + "]}"));
  std::exchange(work_, nullptr)();
  EXPECT_THAT(last_heard_->Message(),
              HasSubstr("body: too many values, expected at most about 2000000"));
}

TEST_F(SubmitTest, RefusesASmallBodyThatExpandsToTooMuchMemory) {
  Json large = SpecJson();
  large["script"] = "#!/bin/sh\n" + std::string(3 << 20, 'x');
  large.erase("command");
  Json indices = Json::array();
  for (int i = 0; i < 100; ++i) indices.push_back(i);
  settings_.max_batch = 5'000;
  const auto submit = [&](const Json& body) {
    Ask(Services(), &SubmitTasks, By(kAda, "", "", base::DumpJson(body)));
    std::exchange(work_, nullptr)();
    return *last_heard_;
  };
  EXPECT_THAT(submit({{"spec", large}, {"array", indices}}).Message(),
              HasSubstr("expected at most 256 MiB in total"));
  Json common = SpecJson();
  for (int i = 0; i < 9; ++i)
    common["environment"][fmt::format("V{}", i)] = std::string(100'000, 'x');
  EXPECT_THAT(
      submit({{"tasks", Json::array_t(5'000, Json::object())}, {"common", common}}).Message(),
      HasSubstr("expected at most 4 GiB"));
}

TEST_F(SubmitTest, OnlyAdministratorsMayRaiseThePriority) {
  Json urgent = SpecJson();
  urgent["priority"] = 1;
  const Heard heard = Submit({{"spec", urgent}});
  EXPECT_EQ(heard.status, 403);
  EXPECT_EQ(heard.Message(), "only an administrator may raise a priority above 0");
  EXPECT_EQ(Submit({{"spec", urgent}}, kRoot).status, 201);
}

TEST_F(SubmitTest, OnlyExemptClassesAndAdministratorsMayUseNoSlots) {
  Json stays = SpecJson();
  stays["no_slots"] = true;
  const Heard heard = Submit({{"spec", stays}});
  EXPECT_EQ(heard.status, 403);
  EXPECT_THAT(heard.Message(), HasSubstr("exempt a task from time slices"));
  EXPECT_EQ(Submit({{"spec", stays}}, kRoot).status, 201);
}

TEST_F(SubmitTest, RefusesATaskThatCanNeverFit) {
  Json wide = SpecJson();
  wide["gpus"] = 3;
  EXPECT_EQ(Submit({{"spec", wide}}).status, 409);
}

TEST_F(SubmitTest, ARepeatedTaskBelongsToItsOwner) {
  task::TaskSpec first = Spec();
  first.held = true;
  first.begin = clock_.Now();
  first.dependencies = {{EndpointTest::Submit(), core::DependencyKind::kAfterAny, std::nullopt}};
  const core::TaskId id = EndpointTest::Submit(first);
  const Heard heard = Ask(Services(), &RedoTask, By(kRoot, fmt::format("{}", id)));
  EXPECT_EQ(heard.status, 201);
  EXPECT_EQ(heard.body, Json({{"first", 3}, {"count", 1}}));
  const store::StoredTask again = store_->Get(core::TaskId{3}).value();
  EXPECT_EQ(again.record.request->uid, kAda.uid);
  EXPECT_EQ(again.gid, kAda.gid);
  EXPECT_EQ(again.user, "ada");
  EXPECT_EQ(task::SpecFromJsonText(again.spec_json).value(), Spec())
      << "unchanged, but without outdated fields";
  const std::vector<store::StoredEvent> events =
      store_->Events(core::TaskId{3}, std::nullopt, 100).value();
  EXPECT_EQ(events.at(0).text, "by ada, task 2 again, requested by root");
}

TEST_F(SubmitTest, RedoKeepsTheDescriptionOrFails) {
  const std::string id = fmt::format("{}", EndpointTest::Submit());
  EXPECT_EQ(Ask(Services(), &RedoTask, By(kAda, id)).status, 201);
  EXPECT_EQ(store_->Events(core::TaskId{2}, std::nullopt, 100)->at(0).text, "by ada, task 1 again");
  const Heard other = Ask(Services(), &RedoTask, By(kEve, id));
  EXPECT_EQ(other.status, 403);
  EXPECT_EQ(other.Message(), "task 1 belongs to ada");
  for (const char* body : {"{\"command\":[\"id\"]}", "{\"user\":\"root\"}", "[]"}) {
    const Heard changed = Ask(Services(), &RedoTask, By(kRoot, id, "", body));
    EXPECT_EQ(changed.status, 400) << body;
    EXPECT_THAT(changed.Message(), HasSubstr("expected"));
  }
  EXPECT_EQ(Ask(Services(), &RedoTask, By(kRoot, id, "", R"({"notify":[{"target":"me"}]})")).status,
            403);
  EXPECT_EQ(Ask(Services(), &RedoTask, By(kRoot, "9")).status, 404);
  EXPECT_FALSE(store_->Get(core::TaskId{3}));
  EXPECT_EQ(Ask(Services(), &RedoTask, By(kAda, id, "", "{}")).status, 201);
}

TEST_F(SubmitTest, RedoRefusesAnotherUserWithAReusedUserId) {
  const std::string id = fmt::format("{}", EndpointTest::Submit());
  const Caller bob{kAda.uid, kAda.gid, "bob", false};
  EXPECT_EQ(Ask(Services(), &RedoTask, By(bob, id)).status, 403);
  const Caller chief{kAda.uid, kAda.gid, "bob", true};
  EXPECT_EQ(Ask(Services(), &RedoTask, By(chief, id)).status, 201);
  EXPECT_EQ(store_->Get(core::TaskId{2})->user, "ada") << "not the administrator's";
}

TEST_F(SubmitTest, RedoAppliesChanges) {
  const std::string id = fmt::format("{}", EndpointTest::Submit());
  const Heard again =
      Ask(Services(), &RedoTask,
          By(kAda, id, "", R"({"memory_mib":9000,"dependencies":[{"task":1,"kind":"afterany"}]})"));
  EXPECT_EQ(again.status, 201) << again.body.dump();
  const store::StoredTask stored = store_->Get(core::TaskId{2}).value();
  EXPECT_EQ(stored.record.request->memory_mib, 9000);
  EXPECT_EQ(stored.record.request->dependencies.size(), 1U);
}

TEST_F(SubmitTest, ADryRunWaitsForAllEstimatesAndChangesNothing) {
  Json large = SpecJson();
  large["name"] = "large";
  EXPECT_EQ(Check({{"tasks", {SpecJson(), large}}}).status, 0);
  const std::shared_ptr<Heard> heard = last_heard_;
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[1].uid, kAda.uid);
  take_({Found(1, core::Estimate{6'000, "given", std::nullopt})});
  EXPECT_EQ(heard->status, 0);
  take_({Found(0, std::nullopt)});
  EXPECT_EQ(heard->status, 200);
  EXPECT_EQ(heard->body.at("count"), 2);
  const Json& tasks = heard->body.at("tasks");
  EXPECT_EQ(tasks[0].at("fits"), "now");
  EXPECT_TRUE(tasks[0].at("predicted_mib").is_null());
  EXPECT_EQ(tasks[1].at("name"), "large");
  EXPECT_EQ(tasks[1].at("predicted_mib"), 6'000);
  EXPECT_EQ(tasks[1].at("estimate_method"), "given");
  EXPECT_FALSE(store_->Get(core::TaskId{1}));
}

TEST_F(SubmitTest, ADryRunPredictsNoStartForATaskThatWaitsForALimit) {
  EngineOptions options;
  options.state_dir = state_dir_;
  options.policy.limits = {*core::ParseLimitRule("user=* running=1")};
  engine_->Follow(options);
  Settle();
  Start(EndpointTest::Submit());
  Check({{"spec", SpecJson()}});
  take_({Found(0, std::nullopt)});
  const Json& task = last_heard_->body.at("tasks")[0];
  EXPECT_EQ(task.at("fits"), "later");
  EXPECT_EQ(task.at("reason"), "Limit");
  EXPECT_TRUE(task.at("likely_start_ms").is_null());
}

TEST_F(SubmitTest, AMistakenDryRunSubmitsNothing) {
  for (const char* check : {"true", "2", "yes", ""}) {
    const Heard heard = Check({{"tasks", {SpecJson()}}}, check);
    EXPECT_EQ(heard.status, 400) << check;
    EXPECT_EQ(heard.Message(), "?check: expected a whole number from 0 to 1");
  }
  EXPECT_FALSE(store_->Get(core::TaskId{1}));
  EXPECT_EQ(Check({{"tasks", {SpecJson()}}}, "0").status, 201);
}

TEST_F(SubmitTest, ADryRunReportsTasksThatCanNeverRun) {
  Check({{"spec", SpecJson()}});
  take_({Found(0, core::Estimate{99'000, "given", std::nullopt})});
  EXPECT_EQ(last_heard_->status, 409);
  EXPECT_THAT(last_heard_->Message(), HasSubstr("task 'train' can never run here: "));
}

TEST_F(SubmitTest, ADryRunChecksDependencies) {
  const core::TaskId waiting = SubmitHeld();
  const core::TaskId failed = EndpointTest::Submit();
  Start(failed);
  End(failed, 1);
  const auto check = [&](std::uint64_t task, const char* kind) {
    Json spec = SpecJson();
    spec["dependencies"] = {{{"task", task}, {"kind", kind}}};
    Check({{"spec", spec}});
    take_({Found(0, std::nullopt)});
    return *last_heard_;
  };
  const Json waits = check(core::Number(waiting), "afterok").body.at("tasks")[0];
  EXPECT_EQ(waits.at("fits"), "later");
  EXPECT_EQ(waits.at("reason_text"), "Waiting for task 1 to succeed.");
  EXPECT_TRUE(waits.at("latest_start_ms").is_null());
  const Heard never = check(core::Number(failed), "afterok");
  EXPECT_EQ(never.status, 409);
  EXPECT_THAT(never.Message(), HasSubstr("task 2 had to succeed first, but it failed"));
  EXPECT_EQ(check(core::Number(failed), "afterany").body.at("tasks")[0].at("fits"), "now");
  const Heard unknown = check(77, "afterok");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.Message(), "cannot depend on task 77: no such task (see carma list --all)");
}

TEST_F(SubmitTest, NamesTheMissingCommandFirst) {
  const Heard heard = Submit({{"tasks", Json::array({Json::object()})}});
  EXPECT_EQ(heard.status, 400);
  EXPECT_THAT(heard.Message(), HasSubstr("/tasks/0/command: expected a command or a script"));
}

TEST_F(SubmitTest, WarnsAboutADependencyThatCanNeverBeMet) {
  const core::TaskId failed = EndpointTest::Submit();
  Start(failed);
  End(failed, 1);
  Json spec = SpecJson();
  spec["dependencies"] = {{{"task", core::Number(failed)}, {"kind", "afterok"}}};
  const Heard heard = Submit({{"spec", spec}});
  EXPECT_EQ(heard.status, 201) << "a script may submit the next task after the first has failed";
  ASSERT_TRUE(heard.body.contains("warnings")) << heard.body;
  EXPECT_EQ(heard.body["warnings"][0],
            "task 'train' can never run here: task 1 had to succeed first, but it failed; it is "
            "cancelled");
  spec["dependencies"][0]["kind"] = "afterany";
  EXPECT_FALSE(Submit({{"spec", spec}}).body.contains("warnings"));
}

TEST_F(SubmitTest, ADryRunWarnsOfAPredictionLargerThanEveryGpu) {
  Check({{"spec", SpecJson()}});
  take_({Found(0, core::Estimate{6'000, "transformer", 99'000})});
  EXPECT_EQ(last_heard_->status, 200) << "a prediction may be wrong";
  const std::string remark = last_heard_->body.at("tasks")[0].at("estimate_remarks").at(0);
  EXPECT_THAT(remark, HasSubstr("No GPU here is large enough: the prediction is 96.7G per GPU, "));
  EXPECT_THAT(remark, HasSubstr("set --memory if you know that the task needs less"));
  Check({{"spec", SpecJson()}});
  take_({Found(0, core::Estimate{6'000, "transformer", 5'000})});
  EXPECT_EQ(last_heard_->body.at("tasks")[0].at("estimate_remarks"), Json::array());
}

TEST_F(SubmitTest, RefusesTooManyDependencies) {
  Json indices = Json::array();
  for (int i = 0; i < 2'000; ++i) indices.push_back(i);
  Json spec = SpecJson();
  spec["dependencies"] = Json::array();
  for (int i = 1; i <= 600; ++i)
    spec["dependencies"].push_back({{"task", i}, {"kind", "afterany"}});
  settings_.max_batch = 5'000;
  Ask(Services(), &SubmitTasks,
      By(kAda, "", "", base::DumpJson({{"spec", spec}, {"array", indices}})));
  if (work_) std::exchange(work_, nullptr)();
  EXPECT_THAT(last_heard_->Message(), HasSubstr("1200000 dependencies, expected at most 1000000"));
}

}  // namespace
}  // namespace carma::daemon
