// Tests `carma report` and `carma config` by running the whole commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/status_view.h"
#include "api/views.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/fake_daemon.h"
#include "report/report.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

class Reports : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.On("GET /v1/report", [](const api::Request&) {
      return api::Response{
          .body = report::ToJsonText(report::Metrics{.tasks = 3, .trace_total_s = 5400})};
    });
    daemon_.On("GET /v1/status", [](const api::Request&) {
      api::StatusView status;
      status.now_ms = 10'000'000;
      return api::Response{.body = base::DumpJson(ToJson(status))};
    });
  }
  Ran Run(std::vector<std::string> words) {
    return RunWords(daemon_.socket_path(), std::move(words));
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = daemon_.dir() + "/" + name;
    EXPECT_TRUE(base::WriteFileAtomic(path, text));
    return path;
  }
  FakeDaemon daemon_;
};

TEST_F(Reports, AreShownAsATableOrAsJson) {
  const Ran table = Run({"report"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("trace total time"));
  EXPECT_THAT(table.out, HasSubstr("1:30:00"));
  const Ran json = Run({"report", "--json", "--name", "magm"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(base::ParseJson(json.out)->at("label"), "magm");
}

TEST_F(Reports, SinceIsADateOrASpanOnTheDaemonsClock) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(Run({"report", "--since", "1h", "--until", "30s"}).exit_code, 0);
  EXPECT_EQ(Run({"report", "--since", "2026-03-01 14:05"}).exit_code, 0);
  EXPECT_THAT(
      daemon_.requests(),
      ::testing::IsSupersetOf({HasSubstr("GET /v1/report?after_ms=6400000&until_ms=9970000"),
                               HasSubstr("GET /v1/report?after_ms=1772373900000")}));
  for (const char* bad :
       {"yesterday", "60", "2026-13-01", "2026-02-30", "-1h", "2026-03-01 14:05 x"}) {
    const Ran ran = Run({"report", std::string("--since=") + bad});
    EXPECT_EQ(ran.exit_code, kExitUsage) << bad;
    EXPECT_THAT(ran.err, HasSubstr("--since: expected a date")) << bad;
  }
}

TEST_F(Reports, AreComparedFromFiles) {
  const std::string one = Write("exclusive.json", R"({"trace_total_s":1000})");
  const std::string two = Write("other.json", R"({"trace_total_s":750,"label":"magm"})");
  const Ran ran = Run({"report", one, two});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("exclusive"));
  EXPECT_THAT(ran.out, HasSubstr("magm"));
  EXPECT_THAT(ran.out, HasSubstr("-25.0 %"));
  EXPECT_THAT(daemon_.requests(), ::testing::IsEmpty());
  const Ran broken = Run({"report", one, Write("broken.json", "{")});
  EXPECT_EQ(broken.exit_code, kExitUsage);
  EXPECT_THAT(broken.err, HasSubstr("broken.json"));
  EXPECT_EQ(Run({"report", "/nowhere.json"}).exit_code, kExitUsage);
}

TEST_F(Reports, AreLimitedToAHundredAtOnce) {
  std::vector<std::string> words(101, Write("one.json", R"({"trace_total_s":5400})"));
  words.front() = "report";
  EXPECT_EQ(Run(words).exit_code, 0);
  words.push_back(words.back());
  const Ran ran = Run(words);
  EXPECT_EQ(ran.exit_code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("at most 100 files, not 101"));
}

TEST_F(Reports, ComeThroughAPipe) {
  const std::string one = Write("one.json", R"({"trace_total_s":5400,"label":"exclusive"})");
  const Ran ran = RunWords(daemon_.socket_path(), {"report", "-"}, one);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("1:30:00"));
  const Ran broken = RunWords(daemon_.socket_path(), {"report", "-"}, Write("broken.json", "{"));
  EXPECT_EQ(broken.exit_code, kExitUsage);
  EXPECT_THAT(broken.err, HasSubstr("carma: standard input:"));
}

TEST_F(Reports, GoOutAsOneHtmlFileOrAsCsv) {
  const std::string one = Write("one.json", R"({"trace_total_s":1000,"label":"exclusive"})");
  const std::string two = Write("two.json", R"([{"trace_total_s":750,"label":"magm <80 %>"}])");
  const std::string page = daemon_.dir() + "/page.html";
  Ran ran = Run({"report", one, two, "--html", page});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  const auto html = base::ReadFile(page, 1 << 20);
  ASSERT_TRUE(html);
  EXPECT_THAT(*html, HasSubstr("magm &lt;80 %&gt;"));
  EXPECT_THAT(Run({"report", one, "--html", "-"}).out, ::testing::StartsWith("<!doctype html>"));
  EXPECT_EQ(Run({"report", one, "--html", "/nowhere/page.html"}).exit_code, kExitFailure);

  ran = Run({"report", one, two, "--csv"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\n\"exclusive\",0,1000,"));
  ran = Run({"report", one, "--csv", "--tasks"});
  EXPECT_THAT(ran.out, ::testing::StartsWith("label,id,name"));
  EXPECT_THAT(ran.err, HasSubstr("reports without a record (carma simulate --json --record)"));

  ran = Run({"report", one, two, "--json"});
  EXPECT_EQ(report::ReportsFromJsonText(ran.out)->size(), 2u) << ran.err;
  EXPECT_THAT(daemon_.requests(), ::testing::IsEmpty());
}

TEST_F(Reports, FiguresNeedTheRecordTablesDoNot) {
  EXPECT_EQ(Run({"report", "--last", "50"}).exit_code, 0);
  EXPECT_EQ(Run({"report", "--html", "-"}).exit_code, 0);
  EXPECT_EQ(Run({"report", "--csv", "--tasks"}).exit_code, 0);
  EXPECT_THAT(daemon_.requests(),
              ::testing::ElementsAre(::testing::StartsWith("GET /v1/report?last=50"),
                                     ::testing::StartsWith("GET /v1/report?run=1"),
                                     ::testing::StartsWith("GET /v1/report?run=1")));
}

TEST_F(Reports, OptionsThatContradictEachOtherAreRefused) {
  const std::string one = Write("one.json", R"({"trace_total_s":1000})");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"report", "--tasks"},
                                                {"report", one, "--since", "2h"},
                                                {"report", one, "--last", "2"},
                                                {"report", one, "--name", "x"},
                                                {"report", "--last", "0"}}) {
    EXPECT_EQ(Run(words).exit_code, kExitUsage) << words.back();
  }
}

TEST_F(Reports, AnswersThatAreNoReportAreRefused) {
  daemon_.On("GET /v1/report", [](const api::Request&) { return api::Response{.body = "[]"}; });
  const Ran ran = Run({"report"});
  EXPECT_EQ(ran.exit_code, kExitFailure);
  EXPECT_THAT(ran.err, HasSubstr("the daemon's report"));
}

TEST_F(Reports, ConfigCheckNamesTheMistakeAndConfigShowCanBeReadAgain) {
  const std::string good = Write("good.toml", "[policy]\nsm_cap = 0.75\n");
  Ran ran = Run({"config", "check", "--config", good});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("is valid: 1 of "));
  EXPECT_EQ(ran.err, "");
  ran = Run({"config", "check", "--config",
             Write("names.toml",
                   "[fair]\naccounts = [\"vision: root\"]\nweights = [\"nosuch=2\"]\n"
                   "[daemon]\nadmins = [\"nobodyhere\"]\n")});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("names.toml:3: fair.weights: no user 'nosuch'"));
  EXPECT_THAT(ran.err, HasSubstr("names.toml:5: daemon.admins: no user 'nobodyhere'"));
  ran = Run({"config", "check", "--config",
             Write("groups.toml", "[daemon]\nallow_groups = [\"nogroup_x\"]\n")});
  EXPECT_EQ(ran.exit_code, 0) << "carmad starts anyway";
  EXPECT_THAT(ran.err, HasSubstr("groups.toml:2: daemon.allow_groups: no group 'nogroup_x'"));
  ran = Run({"config", "check", "--config",
             Write("socket.toml", "[daemon]\nsocket_group = \"nogroup_x\"\n")});
  EXPECT_EQ(ran.exit_code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr("daemon.socket_group: no group 'nogroup_x'"));
  const std::string bad = Write("bad.toml", "[policy]\nsm_cap = 75\n");
  ran = Run({"config", "check", "--config", bad});
  EXPECT_EQ(ran.exit_code, kExitUsage);
  EXPECT_THAT(ran.err, HasSubstr(bad + ":2: policy.sm_cap: expected fraction"));
  EXPECT_EQ(Run({"config", "check", "--config", "/nowhere.toml"}).exit_code, kExitUsage);

  ran = Run({"config", "show", "--origin", "--config", good});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("sm_cap = 0.75 +# " + good + ":2\n"));
  EXPECT_THAT(ran.out, ::testing::ContainsRegex("margin = \"2G\" +# default\n"));
  EXPECT_EQ(Run({"config", "check", "--config", Write("again.toml", ran.out)}).exit_code, 0);

  ran = Run({"config", "show", "--json", "--config", good});
  const Result<base::Json> json = base::ParseJson(ran.out);
  ASSERT_TRUE(json) << ran.out;
  EXPECT_EQ((*json)["policy.sm_cap"]["value"], 0.75);
  EXPECT_EQ((*json)["policy.sm_cap"]["origin"], good + ":2");
  EXPECT_EQ((*json)["daemon.admins"]["value"], base::Json::array());
}

}  // namespace
}  // namespace carma::cli
