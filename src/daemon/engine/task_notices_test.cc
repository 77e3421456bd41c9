#include "daemon/engine/task_notices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "base/json.h"

namespace carma::daemon {
namespace {

using core::ReasonCode;
using core::TaskId;
using core::TaskState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TaskNoticesTest : public ::testing::Test {
 protected:
  TaskNoticesTest() {
    dir_ = ::testing::TempDir() + "carma-task-notices-XXXXXX";
    CARMA_CHECK(::mkdtemp(dir_.data()) != nullptr, "no folder for the test");
    store_ = store::Store::Open(dir_).value();
    notices_.emplace(rules_, *store_);
  }
  ~TaskNoticesTest() override {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }
  core::TaskRecord Put(std::uint64_t id, const std::string& notify, std::uint64_t array = 0) {
    store::StoredTask task;
    task.record.id = TaskId{id};
    task.record.request.Edit().uid = 7;
    if (array != 0) task.record.request.Edit().array = TaskId{array};
    task.record.attempt.Edit().number = 1;
    task.name = "train.py";
    task.user = "ada";
    task.spec_json = R"({"command":["x"],"workdir":"/","notify":)" + notify + "}";
    EXPECT_TRUE(store_->Begin());
    EXPECT_TRUE(store_->PutTask(task));
    EXPECT_TRUE(store_->Commit());
    notices_->Join(task.record.id, task.record.request->array);
    return task.record;
  }
  // The notices for the task's new state, each as "event target".
  std::vector<std::string> At(core::TaskRecord& record, TaskState state,
                              ReasonCode reason = ReasonCode::kNone) {
    record.state = state;
    record.reason = {reason, ""};
    std::vector<std::string> told;
    last_ = notices_->Of(record, base::FromMs(10'000'000));
    for (const store::Notice& each : last_) {
      told.push_back(each.event + " " + each.target +
                     (each.state == store::NoticeState::kDropped ? " dropped" : ""));
    }
    return told;
  }

  std::string dir_;
  std::unique_ptr<store::Store> store_;
  NoticeRules rules_;
  std::optional<TaskNotices> notices_;
  std::vector<store::Notice> last_;
};

TEST_F(TaskNoticesTest, EachTargetGetsItsEventsOnce) {
  core::TaskRecord task = Put(1, R"([{"target":"me","events":["end","fail"]},
                                     {"target":"mail:bob","events":["start","oom","requeue"]}])");
  EXPECT_THAT(At(task, TaskState::kRunning), ElementsAre("start mail:bob"));
  EXPECT_THAT(last_[0].message, HasSubstr(" runs\"")) << "it has no GPU";
  EXPECT_THAT(At(task, TaskState::kQueued, ReasonCode::kOutOfMemory), ElementsAre("oom mail:bob"));
  EXPECT_THAT(At(task, TaskState::kQueued, ReasonCode::kNodeFail), ElementsAre("requeue mail:bob"));
  EXPECT_THAT(At(task, TaskState::kStopping), IsEmpty());
  EXPECT_THAT(At(task, TaskState::kFailed, ReasonCode::kNonZeroExit), ElementsAre("fail me"));
  const base::Json message = base::ParseJson(last_[0].message).value();
  EXPECT_EQ(message.at("task"), 1);
  EXPECT_EQ(message.at("state"), "failed");
  EXPECT_THAT(message.at("text").get<std::string>(), HasSubstr("Task 1 (train.py) on "));
  EXPECT_EQ(last_[0].uid, 7U);
  EXPECT_THAT(At(task, TaskState::kFailed), IsEmpty()) << "it is no longer registered";
}

TEST_F(TaskNoticesTest, ACancelledTaskHasEndedButNotFailed) {
  const char* rules = R"([{"target":"me","events":["fail"]},{"target":"mail:bob"}])";
  core::TaskRecord by_person = Put(1, rules), by_rule = Put(2, rules);
  EXPECT_THAT(At(by_person, TaskState::kCancelled, ReasonCode::kCancelledByUser),
              ElementsAre("end mail:bob"));
  EXPECT_THAT(last_[0].message, HasSubstr(" was cancelled\""));
  EXPECT_THAT(At(by_rule, TaskState::kCancelled, ReasonCode::kDependencyNeverMet),
              ElementsAre("fail me", "end mail:bob"));
}

TEST_F(TaskNoticesTest, ATaskRanOutOfMemory) {
  core::TaskRecord task = Put(1, R"([{"target":"me"}])");
  EXPECT_THAT(At(task, TaskState::kOutOfMemory), ElementsAre("end me"));
  EXPECT_THAT(last_[0].message, HasSubstr(" ran out of memory\""));
}

TEST_F(TaskNoticesTest, ALostTaskHasNoExitCode) {
  core::TaskRecord task = Put(1, R"([{"target":"me"}])");
  task.attempt.Edit().started = base::FromMs(1);
  task.exit = core::ExitInfo{core::ExitKind::kLost, 0, 0, "no report"};
  EXPECT_THAT(At(task, TaskState::kLost, ReasonCode::kNodeFail), ElementsAre("end me"));
  EXPECT_TRUE(base::ParseJson(last_[0].message).value().at("exit_code").is_null());
}

TEST_F(TaskNoticesTest, AnArrayIsReportedOnce) {
  const char* rules = R"([{"target":"me","events":["start","end","fail"]},
                          {"target":"mail:bob","each_task":true}])";
  core::TaskRecord first = Put(1, rules, 1), second = Put(2, rules, 1), third = Put(3, rules, 1);
  EXPECT_THAT(At(first, TaskState::kRunning), ElementsAre("start me"));
  EXPECT_THAT(At(second, TaskState::kRunning), IsEmpty());
  EXPECT_THAT(At(second, TaskState::kFailed), ElementsAre("fail me", "end mail:bob"));
  EXPECT_THAT(At(first, TaskState::kSucceeded), ElementsAre("end mail:bob"));
  EXPECT_THAT(At(third, TaskState::kFailed), ElementsAre("end me", "end mail:bob"));
  EXPECT_EQ(last_[0].task, TaskId{1});
  EXPECT_THAT(last_[0].message, HasSubstr("All 3 tasks of array 1 (train.py) on "));
  EXPECT_THAT(last_[0].message, HasSubstr(" have ended: 1 succeeded, 2 failed\""));
}

TEST_F(TaskNoticesTest, ANoticeAboutAnArrayIsNotRepeatedAfterARestart) {
  core::TaskRecord task = Put(2, R"([{"target":"me","events":["start"]}])", 1);
  EXPECT_TRUE(store_->Begin());
  EXPECT_TRUE(store_->AddNotice({.task = TaskId{1}, .event = "start", .target = "me"}));
  EXPECT_TRUE(store_->Commit());
  EXPECT_THAT(At(task, TaskState::kRunning), IsEmpty());
}

TEST(NoticeWarnings, NameTargetsThatCannotBeReached) {
  const std::set<std::string> wanted{"me", "https://h/secret"};
  NoticeRules rules{.sendmail = "/bin/true"};
  EXPECT_THAT(NoticeWarnings(rules, wanted), IsEmpty());
  rules.sendmail = "/no/sendmail";
  EXPECT_THAT(NoticeWarnings(rules, wanted),
              ElementsAre("--notify me: this server cannot send mail: there is no program "
                          "/no/sendmail"));
  rules.allowed = {task::NotifyKind::kProgram};
  EXPECT_THAT(
      NoticeWarnings(rules, wanted),
      ElementsAre("--notify https://h/…: webhook notifications are not allowed on this server "
                  "(notify.allow)",
                  "--notify me: mail notifications are not allowed on this server (notify.allow)"));
  rules.enabled = false;
  EXPECT_THAT(NoticeWarnings(rules, {"me"}),
              ElementsAre("--notify me: notifications are off on this server (notify.enabled)"));
}

TEST_F(TaskNoticesTest, DropsNoticesThatTheAdministratorDoesNotAllow) {
  rules_.allowed = {task::NotifyKind::kMail};
  rules_.per_user_and_hour = 2;
  const char* rules = R"([{"target":"me"},{"target":"https://h/x"}])";
  std::vector<core::TaskRecord> tasks;
  for (std::uint64_t id = 1; id <= 3; ++id) tasks.push_back(Put(id, rules));
  EXPECT_THAT(At(tasks[0], TaskState::kSucceeded),
              ElementsAre("end me", "end https://h/x dropped"));
  EXPECT_THAT(last_[1].text, HasSubstr("notify.allow"));
  EXPECT_THAT(At(tasks[1], TaskState::kSucceeded),
              ElementsAre("end me", "end https://h/x dropped"));
  EXPECT_THAT(At(tasks[2], TaskState::kSucceeded),
              ElementsAre("end me dropped", "end https://h/x dropped"));
  EXPECT_THAT(last_[0].text, HasSubstr("notify.per_user_and_hour"));
}

}  // namespace
}  // namespace carma::daemon
