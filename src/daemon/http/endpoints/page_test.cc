#include "daemon/http/endpoints/page.h"

#include "daemon/http/endpoints/endpoint_fixture.h"
#include "page/files.h"

namespace carma::daemon {
namespace {

using ::testing::HasSubstr;

api::StatusView Status() {
  api::StatusView view;
  view.version = "1.2.3";
  view.now_ms = 4711;
  view.task_counts = {{"running", 1}};
  return view;
}

std::string HeaderOf(const api::Response& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

class PageTest : public EndpointTest {
 protected:
  PageServices Services() {
    settings_.simgpu_state = "simulated";
    return {&Status, Shared(Basics())};
  }
};

TEST_F(PageTest, IsServedWithAPolicyThatAllowsOnlyItsOwnFiles) {
  const PageServices services = Services();
  const Answer page = ShowPage(services, {});
  EXPECT_EQ(page->content_type, "text/html; charset=utf-8");
  EXPECT_THAT(HeaderOf(*page, "Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(page->body, page::Find(page::kIndex)->text);
  Call call;
  call.id = "main.js";
  call.request.accepts_gzip = true;
  const Answer script = ShowPageFile(services, call);
  EXPECT_EQ(script->body, page::Find("main.js")->gzip);
  EXPECT_EQ(HeaderOf(*script, "Content-Encoding"), "gzip");
  call.request.if_none_match = HeaderOf(*script, "ETag");
  EXPECT_EQ(ShowPageFile(services, call)->status, 304);
  call.id = "../carma.db";
  EXPECT_EQ(ShowPageFile(services, call).error().code, ErrorCode::kNotFound);
}

TEST_F(PageTest, TheOverviewHasTheServerAndTheFirstRowsOfEachList) {
  const core::TaskId running = Submit();
  Start(running);
  const core::TaskId ended = Submit();
  Start(ended);
  End(ended, 3);
  const core::TaskId waiting = SubmitHeld();
  const Heard heard = Ask(Services(), &ShowOverview, {});
  EXPECT_EQ(heard.status, 200);
  const base::Json& view = heard.body;
  EXPECT_EQ(view.at("version"), "1.2.3");
  EXPECT_EQ(view.at("now_ms"), 4711);
  EXPECT_EQ(view.at("simulated"), true);
  EXPECT_EQ(view.at("task_counts").at("running"), 1);
  ASSERT_EQ(view.at("gpus").size(), 2U);
  EXPECT_EQ(view.at("gpus")[0].at("total_mib"), 40'000);
  EXPECT_EQ(view.at("gpus")[0].at("recent").size(), 60U);
  ASSERT_EQ(view.at("running").size(), 1U);
  EXPECT_EQ(view.at("running")[0].at("id"), core::Number(running));
  ASSERT_EQ(view.at("waiting").size(), 1U);
  EXPECT_EQ(view.at("waiting")[0].at("id"), core::Number(waiting));
  EXPECT_EQ(view.at("waiting")[0].at("reason"), "Held");
  ASSERT_EQ(view.at("ended").size(), 1U);
  EXPECT_EQ(view.at("ended")[0].at("exit_code"), 3);
}

TEST_F(PageTest, WaitingTasksAreInQueueOrderWithTheirLatestStart) {
  task::TaskSpec spec = Spec();
  spec.exclusive = true;
  spec.gpus = 2;
  spec.time_limit = base::Duration(3'600'000);
  Start(Submit(spec));
  const core::TaskId second = Submit(spec);
  const core::TaskId held = SubmitHeld();
  spec.priority = 5;
  const core::TaskId first = Submit(spec);
  spec.gpus = 0;
  spec.exclusive = false;
  spec.held = true;
  const core::TaskId without = Submit(spec);
  const Heard heard = Ask(Services(), &ShowOverview, {});
  const base::Json& waiting = heard.body.at("waiting");
  std::vector<std::uint64_t> order;
  for (const base::Json& row : waiting) order.push_back(row.at("id").get<std::uint64_t>());
  EXPECT_EQ(order, (std::vector{core::Number(first), core::Number(second), core::Number(held),
                                core::Number(without)}));
  EXPECT_EQ(waiting[0].at("turn"), 1);
  EXPECT_EQ(waiting[1].at("turn"), 2);
  EXPECT_TRUE(waiting[2].at("turn").is_null());
  const std::int64_t now_ms = base::ToMs(clock_.Now());
  const auto latest_ms = waiting[0].at("latest_start_ms").get<std::int64_t>();
  EXPECT_GT(latest_ms, now_ms + 50 * 60'000);
  EXPECT_LT(latest_ms, now_ms + 70 * 60'000);
  EXPECT_EQ(latest_ms % 60'000, 0);
  EXPECT_GT(waiting[1].at("latest_start_ms").get<std::int64_t>(), latest_ms);
  EXPECT_TRUE(waiting[2].at("latest_start_ms").is_null());
}

TEST_F(PageTest, TheOverviewIsPartialBeforeTheGpusAreKnown) {
  const Heard heard = Ask(PageServices(&Status, nullptr), &ShowOverview, {});
  EXPECT_EQ(heard.body.at("version"), "1.2.3");
  EXPECT_TRUE(heard.body.at("gpus").empty());
}

TEST_F(PageTest, CountsTasksAndGpusOfUsers) {
  Start(Submit());
  SubmitHeld();
  const Heard heard = Ask(Services(), &ListUsers, {});
  ASSERT_EQ(heard.body.at("users").size(), 1U);
  const base::Json& ada = heard.body.at("users")[0];
  EXPECT_EQ(ada.at("user"), "ada");
  EXPECT_EQ(ada.at("running"), 1);
  EXPECT_EQ(ada.at("waiting"), 1);
  EXPECT_EQ(ada.at("gpus"), 1);
  EXPECT_GT(ada.at("promised_mib"), 0);
}

}  // namespace
}  // namespace carma::daemon
