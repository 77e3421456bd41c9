#include "daemon/http/endpoints/handlers.h"

#include "daemon/http/endpoints/endpoint_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

class PastTest : public EndpointTest {
 protected:
  SharedServices Services() {
    EngineServices services = Basics();
    services.status = [] { return api::StatusView{.version = "1", .policy = "magm"}; };
    services.close_usage = [this] { ++usage_closed_; };
    services.answer_later = Worker();
    return Shared(std::move(services));
  }

  int usage_closed_ = 0;
};

TEST_F(PastTest, ListsEventsOfAllTasksOrOfOneInOrder) {
  SubmitHeld();
  SubmitHeld();
  const Heard all = Ask(Services(), &ListEvents, Asking({}));
  EXPECT_EQ(all.status, 200);
  const base::Json& events = all.body.at("events");
  ASSERT_GE(events.size(), 2U);
  EXPECT_LT(events[0].at("sequence"), events[1].at("sequence"));
  const Heard second = Ask(Services(), &ListEvents, Asking({{"task", "2"}}));
  for (const base::Json& event : second.body.at("events")) EXPECT_EQ(event.at("task"), 2);
  const std::string first = events[0].at("sequence").dump();
  const Heard later = Ask(Services(), &ListEvents, Asking({{"after", first}, {"limit", "1"}}));
  ASSERT_EQ(later.body.at("events").size(), 1U);
  EXPECT_EQ(later.body.at("events")[0], events[1]);
}

TEST_F(PastTest, OnlyTheOwnerReadsATasksErrorsInEvents) {
  const core::TaskId id = Submit();
  Start(id);
  launcher_.EmitExited(id, 1, 1, "KeyError: 'secret'\n");
  engine_->PollLauncher();
  engine_->TakeNoticeResult({.task = id,
                             .event = "end",
                             .target = "/home/ada/n.sh",
                             .state = store::NoticeState::kFailed,
                             .text = "another secret"});
  engine_->Turn();
  const std::pair<Caller, bool> cases[] = {{kAda, true},
                                           {kRoot, true},
                                           {kEve, false},
                                           {{kAda.uid, kAda.gid, "bob"}, false},
                                           {{}, false}};
  for (const auto& [caller, sees] : cases) {
    const std::string text = Ask(Services(), &ListEvents, By(caller, "")).body.dump();
    EXPECT_EQ(text.contains("secret"), sees) << caller.user;
    EXPECT_THAT(text, HasSubstr("Exit code 1"));
    EXPECT_THAT(text, HasSubstr("end to /home/ada/n.sh"));
  }
}

TEST_F(PastTest, EventsOfAnArrayTaskIncludeTheSubmissionOfItsArray) {
  task::TaskSpec first = Spec();
  first.held = true;
  first.array_index = 4;
  task::TaskSpec second = first;
  second.array_index = 5;
  engine_->Submit({first, second}, {kAda.uid, kAda.gid, kAda.user},
                  [](const Result<Submitted>& answer) { ASSERT_TRUE(answer); });
  engine_->Turn();
  Settle();
  const Heard member = Ask(Services(), &ListEvents, Asking({{"task", "2"}}));
  ASSERT_FALSE(member.body.at("events").empty());
  EXPECT_EQ(member.body.at("events")[0].at("what"), "submitted");
  EXPECT_EQ(member.body.at("events")[0].at("task"), 1);
}

TEST_F(PastTest, RefusesInvalidEventRequests) {
  for (const auto& [key, value] :
       Query{{"task", "x"}, {"task", "0"}, {"after", "-1"}, {"limit", "0"}}) {
    EXPECT_EQ(Ask(Services(), &ListEvents, Asking({{key, value}})).status, 400) << key;
  }
}

TEST_F(PastTest, AWorkerMakesReportsFromCurrentRecords) {
  const core::TaskId id = Submit();
  Start(id);
  End(id);
  EXPECT_EQ(Ask(Services(), &MakeReport, Asking({{"last", "1"}})).status, 0);
  EXPECT_EQ(usage_closed_, 1);
  ASSERT_TRUE(work_);
  work_();
  EXPECT_EQ(last_heard_->status, 200);
  EXPECT_THAT(last_heard_->body.dump(), HasSubstr("carmad 1: magm"));
}

TEST_F(PastTest, RefusesInvalidOrTooManyReports) {
  EXPECT_THAT(Ask(Services(), &MakeReport, Asking({{"run", "2"}})).Message(),
              HasSubstr("?run: expected a whole number from 0 to 1"));
  EXPECT_EQ(Ask(Services(), &MakeReport, Asking({{"last", "-1"}})).status, 400);
  EXPECT_EQ(usage_closed_, 0);
  worker_busy_ = true;
  EXPECT_EQ(Ask(Services(), &MakeReport, Asking({})).status, 503);
}

TEST_F(PastTest, UsageIncludesEndedAndRunningTasks) {
  const core::TaskId id = Submit();
  Start(id);
  clock_.Advance(core::Duration(90'500));
  End(id);
  const core::TaskId second = Submit();
  Start(second);
  clock_.Advance(core::Duration(10'000));
  const std::vector<store::EndedAttempt> running = engine_->RunningAttempts();
  ASSERT_EQ(running.size(), 1U);
  EXPECT_EQ(running[0].gpu_uuids.size(), 1U);
  EXPECT_EQ(Ask(Services(), &TellUsage, Asking({})).status, 0);
  EXPECT_EQ(usage_closed_, 1);
  ASSERT_TRUE(work_);
  work_();
  ASSERT_EQ(last_heard_->status, 200);
  const base::Json& rows = last_heard_->body.at("usage");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("tasks"), 2);
  const auto attempts = store_->Attempts(core::Time{}).value();
  ASSERT_EQ(attempts.size(), 1U);
  const auto seconds = [](const store::EndedAttempt& each) {
    return base::Seconds(each.taken.to - each.taken.from);
  };
  EXPECT_GE(seconds(attempts[0]), 90.5);
  EXPECT_DOUBLE_EQ(rows[0].at("gpu_s").get<double>(), seconds(attempts[0]) + seconds(running[0]));
  EXPECT_EQ(Ask(Services(), &TellUsage, Asking({{"by", "colour"}})).status, 400);
}

TEST_F(PastTest, AReportShowsThePromiseOfEachStart) {
  const core::TaskId id = Submit();
  Start(id);
  End(id);
  Start(Submit());
  Ask(Services(), &MakeReport, Asking({{"run", "1"}}));
  work_();
  const base::Json& tasks = last_heard_->body.at("run").at("tasks");
  ASSERT_EQ(tasks.size(), 2U);
  for (const base::Json& task : tasks) EXPECT_EQ(task.at("attempts")[0].at("promised_mib"), 5'500);
}

TEST_F(PastTest, DrawsAReportAsAPageWithoutScripts) {
  const core::TaskId id = Submit();
  Start(id);
  End(id);
  std::optional<api::Response> page;
  ASSERT_TRUE(
      DrawReport(Services(), Asking({{"last", "1"}}),
                 api::Responder([&](api::Response response) { page = std::move(response); })));
  ASSERT_TRUE(work_);
  work_();
  ASSERT_TRUE(page);
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page->body, HasSubstr("Tasks on the GPUs"));
  ASSERT_EQ(page->headers.size(), 1U);
  EXPECT_EQ(page->headers[0].first, "Content-Security-Policy");
  EXPECT_THAT(page->headers[0].second, ::testing::Not(HasSubstr("script")));
}

}  // namespace
}  // namespace carma::daemon
