// Tests many users on one server. Limits must hold no matter what is killed, accounts must add up,
// and users must not reach each other's data.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/calls.h"
#include "tests/kit.h"

namespace carma::system_test {
namespace {

using ::testing::HasSubstr;

std::vector<api::TaskView> AllTasks(Site& site) {
  cli::TaskQuery query;
  query.states = "all";
  query.limit = SIZE_MAX;
  const auto page = cli::ListTasks(site.client(), query);
  EXPECT_TRUE(page) << page.error().message;
  return page ? page->tasks : std::vector<api::TaskView>();
}

// The peak number of GPUs held at the same time by these finished tasks.
std::int64_t MostGpusAtOnce(const std::vector<api::TaskView>& tasks) {
  // Ends sort before starts, so an end and a start at the same moment do not overlap.
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (const api::TaskView& task : tasks) {
    if (!task.launched_ms || !task.ended_ms) continue;
    steps.emplace_back(*task.launched_ms, task.gpus);
    steps.emplace_back(*task.ended_ms, -task.gpus);
  }
  std::ranges::sort(steps);
  std::int64_t now = 0, most = 0;
  for (const auto& [when, change] : steps) most = std::max(most, now += change);
  return most;
}

class Sharing : public ::testing::Test {
 protected:
  Site site{{.shape = "4xA100-40GB"}};
};

// Tasks are short relative to the time between kills, so that kills hit starts and ends.
TEST_F(Sharing, LimitsAndAccountsAreRightAfterFortyKills) {
  constexpr int kKills = 40, kTasks = 120;
  site.Set("limits.rules", R"(["user=* running=3 gpus=4"])");
  site.Start();
  std::string batch;
  for (int i = 0; i < kTasks; ++i) {
    base::Json task = {{"name", "short"}, {"gpus", 1 + i % 2}, {"memory_mib", 1'500}};
    task["command"] = {"/bin/sh", "-c", R"(echo $CARMA_TASK_ID >> ran; exec "$@")", "sh"};
    for (std::string& word : SimTask({.memory_mib = 1'000, .solo_s = 60}))
      task["command"].push_back(std::move(word));
    batch += base::DumpJson(task) + "\n";
  }
  const Ran submitted = site.Carma({"submit", "--batch", "-"}, {.input = batch});
  ASSERT_TRUE(submitted.Ok()) << submitted.Text();
  for (int i = 0; i < kKills; ++i) site.Restart(SIGKILL);
  for (int id = 1; id <= kTasks; ++id) {
    const api::TaskView task = site.Await(static_cast<std::uint64_t>(id));
    ASSERT_EQ(task.state, "succeeded") << id << ": " << task.reason_text;
  }
  std::multiset<int> ran;
  std::istringstream lines(ReadText(site.out_dir() + "/ran"));
  for (int id = 0; lines >> id;) ran.insert(id);
  EXPECT_EQ(ran.size(), static_cast<std::size_t>(kTasks)) << "a task ran twice";

  const std::vector<api::TaskView> tasks = AllTasks(site);
  ASSERT_EQ(tasks.size(), static_cast<std::size_t>(kTasks));
  EXPECT_LE(MostGpusAtOnce(tasks), 4);
  std::vector<api::TaskView> one_each = tasks;
  for (api::TaskView& task : one_each) task.gpus = 1;
  EXPECT_LE(MostGpusAtOnce(one_each), 3) << "running tasks";
  // Usage must agree with the database. Some attempts in the database never got a process, because
  // the daemon was killed after deciding to start them.
  const Ran sum =
      RunProgram({"python3", "-c",
                  "import sqlite3, sys\n"
                  "rows = sqlite3.connect(sys.argv[1]).execute("
                  "'SELECT count(*), sum(gpus * (ended_ms - launched_ms)) FROM attempt')\n"
                  "print('[%d, %d]' % rows.fetchone())",
                  site.state_dir() + "/carma.db"});
  const auto kept = base::ParseJson(sum.out);
  const auto usage = base::ParseJson(site.Carma({"usage", "--json"}).out);
  ASSERT_TRUE(kept && usage) << sum.Text();
  const base::Json& row = usage->at("usage").at(0);
  EXPECT_EQ(row.at("tasks"), kTasks);
  EXPECT_EQ(row.at("attempts"), kept->at(0));
  EXPECT_NEAR(row.at("gpu_s").get<double>(), kept->at(1).get<double>() / 1000, 0.001);
}

TEST_F(Sharing, AQuotaHoldsForConcurrentSubmissionsAndAfterKills) {
  constexpr int kQuota = 25, kSubmitters = 4, kEach = 12;
  site.Set("limits.rules", fmt::format(R"(["user=* queued={}"])", kQuota));
  site.Start();
  ASSERT_TRUE(site.Carma({"drain", "all"}).Ok());
  const std::string loop =
      fmt::format("for i in $(seq {}); do {} --socket {} submit -o /dev/null -- /bin/true; done",
                  kEach, Program("carma"), site.socket());
  std::vector<Child> submitters;
  for (int i = 0; i < kSubmitters; ++i)
    submitters.push_back(Child::Start({"/bin/sh", "-c", loop}, {.cwd = site.out_dir()}));
  for (int i = 0; i < 8; ++i) site.Restart(SIGKILL);
  for (Child& each : submitters) EXPECT_FALSE(each.Wait().late);
  EXPECT_LE(AllTasks(site).size(), static_cast<std::size_t>(kQuota));
  // Submissions that failed because of the kills must not have used up any of the quota.
  while (site.Carma({"submit", "-o", "/dev/null", "--", "/bin/true"}).Ok()) {
    ASSERT_LE(AllTasks(site).size(), static_cast<std::size_t>(kQuota));
  }
  EXPECT_EQ(AllTasks(site).size(), static_cast<std::size_t>(kQuota));
  const Ran refused = site.Carma({"submit", "-o", "/dev/null", "--", "/bin/true"});
  EXPECT_EQ(refused.code, 2) << refused.Text();
  EXPECT_THAT(refused.err, HasSubstr(fmt::format("{}", kQuota)));
}

// Two ordinary users of this machine. The configuration makes a third user an administrator.
class TwoUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!IsRoot()) GTEST_SKIP() << "needs root";
    for (const char* name : {"daemon", "games", "nobody"}) {
      const passwd* user = ::getpwnam(name);
      if (user == nullptr) GTEST_SKIP() << "no user " << name;
      uids_[name] = user->pw_uid;
    }
    site.Set("daemon.admins", R"(["games"])");
    site.Set("limits.rules", R"(["user=nobody running=1 queued=3", "user=* length=1h"])");
    site.Start();
  }
  RunOptions As(const std::string& name) const { return {.uid = uids_.at(name)}; }
  RunOptions Ada() const { return As("nobody"); }
  RunOptions Eve() const { return As("daemon"); }
  RunOptions Admin() const { return As("games"); }

  Site site{{.shape = "2xA100-40GB"}};

 private:
  std::map<std::string, uid_t> uids_;
};

TEST_F(TwoUsers, ALimitAffectsOneUserAndCannotBeEvaded) {
  ASSERT_TRUE(site.Carma({"drain", "all"}).Ok());
  for (int i = 0; i < 3; ++i) ASSERT_NE(site.Submit({"--", "/bin/true"}, Ada()), 0U);
  const Ran fourth = site.Carma({"submit", "--", "/bin/true"}, Ada());
  EXPECT_EQ(fourth.code, 2) << fourth.Text();
  EXPECT_THAT(fourth.err, HasSubstr("nobody"));
  EXPECT_EQ(site.Carma({"submit", "--array", "0-9", "--", "/bin/true"}, Ada()).code, 2);
  EXPECT_EQ(site.Carma({"submit", "--time", "2h", "--", "/bin/true"}, Ada()).code, 2);
  // Another user's name in the environment has no effect, because the kernel identifies the caller.
  RunOptions disguised = Ada();
  disguised.environment = {{"USER", "daemon"}, {"LOGNAME", "daemon"}, {"SUDO_USER", "daemon"}};
  EXPECT_EQ(site.Carma({"submit", "--", "/bin/true"}, disguised).code, 2);
  for (int i = 0; i < 5; ++i) EXPECT_NE(site.Submit({"--", "/bin/true"}, Eve()), 0U);

  ASSERT_TRUE(site.Carma({"resume", "all"}).Ok());
  for (std::uint64_t id = 1; id <= 8; ++id) EXPECT_EQ(site.Await(id).state, "succeeded");
  std::vector<api::TaskView> adas;
  for (const api::TaskView& task : AllTasks(site)) {
    if (task.user == "nobody") adas.push_back(task);
  }
  EXPECT_EQ(adas.size(), 3U);
  EXPECT_EQ(MostGpusAtOnce(adas), 1);
}

TEST_F(TwoUsers, NeitherReadsTheOthersDescriptionsOrOutput) {
  RunOptions secret = Ada();
  secret.environment = {{"TOKEN", "hers-alone"}};
  const mode_t before = ::umask(077);
  const std::uint64_t id = site.Submit({"--", "/bin/sh", "-c", "echo $TOKEN"}, secret);
  ::umask(before);
  ASSERT_EQ(site.Await(id).state, "succeeded");
  const std::string number = fmt::format("{}", id);
  EXPECT_THAT(site.Carma({"logs", number}, Ada()).out, HasSubstr("hers-alone"));
  const Ran logs = site.Carma({"logs", number}, Eve());
  EXPECT_NE(logs.code, 0);
  const std::vector<std::vector<std::string>> looks{
      {"show", number},    {"show", "--json", number},  {"explain", number},
      {"history", number}, {"list", "--all", "--json"}, {"redo", number}};
  for (const std::vector<std::string>& look : looks)
    EXPECT_EQ(site.Carma(look, Eve()).Text().find("hers-alone"), std::string::npos) << look[0];
  EXPECT_EQ(logs.Text().find("hers-alone"), std::string::npos);
  EXPECT_THAT(site.CallAs(*Eve().uid, "GET", fmt::format("/v1/tasks/{}/spec", id)),
              HasSubstr("belongs to nobody"));
}

TEST_F(TwoUsers, OnlyAdministratorsChangeOtherUsersTasks) {
  ASSERT_TRUE(site.Carma({"drain", "all"}, Admin()).Ok());
  const std::uint64_t hers = site.Submit({"--", "/bin/true"}, Ada());
  const std::uint64_t second = site.Submit({"--", "/bin/true"}, Ada());
  const std::string number = fmt::format("{}", hers), both = fmt::format("{}-{}", hers, second);
  const std::vector<std::vector<std::string>> changes{{"cancel", number},
                                                      {"cancel", both},
                                                      {"hold", both},
                                                      {"requeue", both},
                                                      {"edit", number, "--time", "10m"},
                                                      {"redo", number},
                                                      {"priority", "-5", number}};
  for (const std::vector<std::string>& change : changes) {
    const Ran ran = site.Carma(change, Eve());
    EXPECT_NE(ran.code, 0) << change[0];
    EXPECT_THAT(ran.err, HasSubstr("belongs to nobody")) << change[0];
  }
  EXPECT_NE(site.Carma({"cancel", "--all", "--user", "nobody"}, Eve()).code, 0);
  EXPECT_NE(site.Carma({"resume", "all"}, Eve()).code, 0);
  EXPECT_NE(site.Carma({"estimate", "--reset-calibration"}, Eve()).code, 0);
  for (const std::uint64_t id : {hers, second}) {
    const api::TaskView task = site.Task(id);
    EXPECT_EQ(task.state, "queued");
    EXPECT_NE(task.reason, "Held");
    EXPECT_EQ(task.priority, 0);
  }
  EXPECT_TRUE(site.Carma({"priority", "5", number}, Admin()).Ok());
  EXPECT_TRUE(site.Carma({"hold", both}, Admin()).Ok());
  EXPECT_TRUE(site.Carma({"cancel", both}, Admin()).Ok());
  EXPECT_EQ(site.Task(hers).state, "cancelled");
}

}  // namespace
}  // namespace carma::system_test
