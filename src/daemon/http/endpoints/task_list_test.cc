// Tests lists of tasks.
#include "daemon/http/endpoints/tasks.h"

#include <set>

#include "daemon/http/endpoints/tasks_fixture.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

TEST_F(TasksTest, AListHasPages) {
  for (int i = 0; i < 3; ++i) SubmitHeld();
  const Heard newest = Ask(Services(), &ListTasks, Asking({{"limit", "2"}}));
  EXPECT_EQ(newest.status, 200);
  ASSERT_EQ(newest.body.at("tasks").size(), 2U);
  EXPECT_EQ(newest.body.at("tasks")[0].at("id"), 3);
  EXPECT_EQ(newest.body.at("next"), 2);
  const Heard rest = Ask(Services(), &ListTasks, Asking({{"limit", "2"}, {"before", "2"}}));
  ASSERT_EQ(rest.body.at("tasks").size(), 1U);
  EXPECT_EQ(rest.body.at("tasks")[0].at("user"), "ada");
  EXPECT_TRUE(rest.body.at("next").is_null());
}

TEST_F(TasksTest, AListMayBeInQueueOrder) {
  task::TaskSpec spec = Spec();
  spec.gpus = 2;
  spec.exclusive = true;
  Submit(spec);  // holds all GPUs
  SubmitHeld();
  Submit(spec);
  Submit(spec);
  spec.priority = 5;
  Submit(spec);
  const auto ids = [&](Query query) {
    query.emplace_back("order", "turn");
    query.emplace_back("state", "queued");
    std::string text;
    const Heard heard = Ask(Services(), &ListTasks, Asking(query));
    for (const base::Json& task : heard.body.at("tasks"))
      text += std::to_string(task.at("id").get<int>()) + " ";
    return text + (heard.body.at("next").is_null() ? "" : "…");
  };
  EXPECT_EQ(ids({}), "5 3 4 2 ");
  EXPECT_EQ(ids({{"limit", "2"}}), "5 3 …");
  EXPECT_EQ(ids({{"limit", "2"}, {"before", "3"}}), "4 2 ");
  EXPECT_EQ(ids({{"before", "2"}}), "");
  EXPECT_EQ(ids({{"user", "nobody"}}), "");
}

TEST_F(TasksTest, AListMayBeLimitedToAClassOrAccount) {
  task::TaskSpec spec = OnAllGpus();
  Submit(spec);  // holds all GPUs
  Submit(spec);
  spec.qos = "interactive";
  Submit(spec);
  SubmitHeld();
  const auto ids = [&](Query query, const char* order) {
    query.emplace_back("order", order);
    std::string text;
    const Heard heard = Ask(Services(), &ListTasks, Asking(query));
    for (const base::Json& task : heard.body.at("tasks"))
      text += std::to_string(task.at("id").get<int>()) + " ";
    return text;
  };
  for (const char* order : {"turn", "asc"}) {
    EXPECT_EQ(ids({{"qos", "interactive"}}, order), "3 ");
    EXPECT_EQ(ids({{"qos", "normal"}, {"state", "queued"}}, order), "2 4 ");
    EXPECT_EQ(ids({{"qos", "background"}}, order), "");
    EXPECT_EQ(ids({{"account", "vision"}}, order), "");
  }
}

TEST_F(TasksTest, PagesInQueueOrderContainEachTaskOnce) {
  Submit(OnAllGpus());  // holds all GPUs
  SubmitHeld();
  constexpr int kWaiting = 2'500;
  SubmitArray(kWaiting, kAda);
  task::TaskSpec first = OnAllGpus();
  first.priority = 5;
  Submit(first);
  Query query{{"order", "turn"}, {"state", "queued"}, {"limit", "1000"}};
  std::vector<int> ids;
  for (int pages = 0; pages < 20; ++pages) {
    const Heard heard = Ask(Services(), &ListTasks, Asking(query));
    for (const base::Json& task : heard.body.at("tasks")) ids.push_back(task.at("id"));
    if (heard.body.at("next").is_null()) break;
    const std::string next = std::to_string(heard.body.at("next").get<int>());
    query.resize(3);
    query.emplace_back("before", next);
    if (pages > 0) continue;
    // The page's last task and a later task leave the queue. Another client lists the queue, too.
    Change(kAda, "hold", next);
    Change(kAda, "hold", std::to_string(kWaiting));
    Settle();
    Ask(Services(), &ListTasks, Asking({{"order", "turn"}, {"limit", "1"}}));
  }
  EXPECT_EQ(ids.size(), kWaiting + 2U);
  EXPECT_EQ(ids.front(), kWaiting + 3);
  EXPECT_EQ(ids.back(), 2) << "the held task comes last";
  EXPECT_TRUE(std::ranges::is_sorted(ids.begin() + 1, ids.end() - 1));
  EXPECT_EQ(std::set<int>(ids.begin(), ids.end()).size(), ids.size());
}

TEST_F(TasksTest, PagesInQueueOrderEndWhenTasksEndMeanwhile) {
  Submit(OnAllGpus());  // holds all GPUs
  SubmitArray(30, kAda);
  task::TaskSpec first = OnAllGpus();
  first.priority = 5;
  Submit(first);
  Query query{{"order", "turn"}, {"state", "all"}, {"limit", "10"}};
  std::vector<int> ids;
  for (int pages = 0; pages < 10; ++pages) {
    const Heard heard = Ask(Services(), &ListTasks, Asking(query));
    for (const base::Json& task : heard.body.at("tasks")) ids.push_back(task.at("id"));
    if (heard.body.at("next").is_null()) break;
    query.resize(3);
    query.emplace_back("before", std::to_string(heard.body.at("next").get<int>()));
    if (pages > 0) continue;
    for (int id = 2; id <= 31; ++id) Change(kAda, "cancel", std::to_string(id));
    Settle();
  }
  EXPECT_EQ(ids.size(), 32U);
  EXPECT_EQ(std::set<int>(ids.begin(), ids.end()).size(), ids.size());
}

TEST_F(TasksTest, FindsAUsersTasksInALongQueueAtOnce) {
  SubmitArray(4'500, kAda);
  SubmitArray(2, kEve);
  const Heard found = Ask(Services(), &ListTasks,
                          Asking({{"order", "turn"}, {"state", "queued"}, {"user", "eve"}}));
  EXPECT_EQ(found.body.at("tasks").size(), 2U);
  EXPECT_TRUE(found.body.at("next").is_null());
}

TEST_F(TasksTest, OnlyTasksFarBackInTheQueueNeedASnapshot) {
  task::TaskSpec spec = OnAllGpus();
  spec.time_limit = base::Duration(3'600'000);
  Start(Submit(spec));
  Submit(spec);
  SubmitArray(300, kAda);
  const Heard front = Ask(Services(), &ListTasks,
                          Asking({{"order", "turn"}, {"state", "queued"}, {"limit", "50"}}));
  ASSERT_EQ(front.body.at("tasks").size(), 50U);
  EXPECT_GT(front.body.at("tasks")[0].at("latest_start_ms"), base::ToMs(clock_.Now()));
  EXPECT_EQ(snapshots_, 0);
  const Heard newest = Ask(Services(), &ListTasks, Asking({{"limit", "50"}}));
  EXPECT_EQ(newest.body.at("tasks").size(), 50U);
  EXPECT_EQ(snapshots_, 1);
}

// Checking a name requires a store query, so only a limited number of names is checked for a page.
TEST_F(TasksTest, FindsANameInALongQueuePageByPage) {
  SubmitHeld();
  SubmitArray(2'500, kAda);
  Query query{{"order", "turn"}, {"state", "queued"}, {"name", "no such"}};
  int pages = 1;
  for (Heard heard = Ask(Services(), &ListTasks, Asking(query)); pages < 10; ++pages) {
    EXPECT_EQ(heard.body.at("tasks").size(), 0U);
    if (heard.body.at("next").is_null()) break;
    query.resize(3);
    query.emplace_back("before", std::to_string(heard.body.at("next").get<int>()));
    heard = Ask(Services(), &ListTasks, Asking(query));
  }
  EXPECT_EQ(pages, 3);
}

TEST_F(TasksTest, LimitsTheLengthOfAPage) {
  std::vector<std::int64_t> indices;
  for (int i = 0; i < 1'005; ++i) indices.push_back(i);
  task::TaskSpec spec = Spec();
  spec.held = true;
  bool accepted = false;
  engine_->Submit(TaskList::Array(spec, indices), {kAda.uid, kAda.gid, kAda.user},
                  [&](const Result<Submitted>& answer) { accepted = answer.has_value(); });
  for (int turn = 0; turn < 10 && !accepted; ++turn) engine_->Turn();
  ASSERT_TRUE(accepted);
  const Heard page = Ask(Services(), &ListTasks, Asking({{"limit", "10000"}}));
  EXPECT_EQ(page.body.at("tasks").size(), 1'000U);
  EXPECT_EQ(page.body.at("next"), 6);
}

TEST_F(TasksTest, ListsOnlyUnfinishedTasksByDefault) {
  SubmitHeld();
  Change(kAda, "cancel");
  EXPECT_EQ(Ask(Services(), &ListTasks, Asking({})).body.at("tasks").size(), 0U);
  EXPECT_EQ(Ask(Services(), &ListTasks, Asking({{"state", "all"}})).body.at("tasks").size(), 1U);
  EXPECT_EQ(Ask(Services(), &ListTasks, Asking({{"state", "cancelled"}})).body.at("tasks").size(),
            1U);
}

TEST_F(TasksTest, AnInvalidListReportsTheExpectedValues) {
  const struct {
    Query query;
    const char* message;
  } cases[] = {
      {{{"state", "asleep"}}, "no task state 'asleep' (expected submitted, "},
      {{{"limit", "0"}}, "?limit: expected a whole number from 1 to 10000"},
      {{{"limit", "1"}, {"before", "x"}}, "?before: expected a whole number from 0"},
      {{{"order", "up"}}, "?order: expected asc, desc or turn"},
  };
  for (const auto& c : cases) {
    const Heard heard = Ask(Services(), &ListTasks, Asking(c.query));
    EXPECT_EQ(heard.status, 400);
    EXPECT_THAT(heard.Message(), HasSubstr(c.message));
  }
}

TEST_F(TasksTest, ListsShortenLongCommands) {
  task::TaskSpec spec = Spec();
  spec.command = {"python3", std::string(100'000, 'x'), "--last"};
  Submit(spec);
  const Heard list = Ask(Services(), &ListTasks, Asking({{"state", "all"}}));
  const base::Json& command = list.body.at("tasks").at(0).at("command");
  ASSERT_EQ(command.size(), 2u);
  EXPECT_LT(command.at(1).get<std::string>().size(), 1'100u);
  const Heard changed =
      Ask(Services(), &ChangeTasks, By(kAda, "", "", R"({"verb":"cancel","tasks":[1]})"));
  EXPECT_EQ(changed.body.at("tasks").at(0).at("command"), command);
}

TEST_F(TasksTest, LongRowsEndAPageEarly) {
  task::TaskSpec spec = Spec();
  spec.command.clear();
  spec.script = "#!/bin/sh\n" + std::string(3 << 20, 'x');
  for (int i = 0; i < 8; ++i) Submit(spec);
  std::size_t seen = 0;
  Query next = {{"state", "all"}};
  for (int pages = 1; pages <= 3; ++pages) {
    const Heard list = Ask(Services(), &ListTasks, Asking(next));
    seen += list.body.at("tasks").size();
    if (list.body.at("next").is_null()) break;
    next = {{"state", "all"}, {"before", list.body.at("next").dump()}};
  }
  EXPECT_EQ(seen, 8u);
}

}  // namespace
}  // namespace carma::daemon
