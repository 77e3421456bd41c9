// Tests settings files: precedence, broken files, and reloading.
#include "config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "config/settings_fixture.h"

namespace carma::config {
namespace {

using ::testing::HasSubstr;

class SettingsFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "carma-config-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(base::WriteFileAtomic(path, text));
    return path;
  }
  std::string dir_;
};

TEST_F(SettingsFiles, LaterSourcesWin) {
  const std::string first =
      Write("1.toml", "[policy]\nmapper=\"lug\"\nfloor=\"1G\"\nmargin=\"1G\"\n");
  const std::string second = Write("2.toml", "[policy]\nfloor=\"2G\"\nmargin=\"2G\"\n");
  const Result<Loaded> loaded =
      Load({.files = {{first, false}, {dir_ + "/none.toml", true}, {second, false}},
            .environment = {{"CARMA_POLICY_MARGIN", "3G"}, {"CARMA_DAEMON_SOCKET", "/env.sock"}},
            .overrides = {{"daemon.socket", "/flag.sock"}}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto where = [&](const char* key) { return loaded->origins.at(key).where; };
  EXPECT_EQ(loaded->settings.policy.mapper, "lug");
  EXPECT_EQ(loaded->settings.policy.floor_mib, 2048);
  EXPECT_EQ(loaded->settings.policy.margin_mib, 3072);
  EXPECT_EQ(loaded->settings.socket, "/flag.sock");
  EXPECT_EQ(where("policy.mapper"), first + ":2");
  EXPECT_EQ(where("policy.floor"), second + ":2");
  EXPECT_EQ(where("policy.margin"), "CARMA_POLICY_MARGIN");
  EXPECT_EQ(where("daemon.socket"), "--socket");
  EXPECT_EQ(where("task.cgroups"), "default");
}

TEST_F(SettingsFiles, MissingHugeAndBrokenFilesAreRefused) {
  EXPECT_EQ(Load({.files = {{dir_ + "/none.toml", false}}}).error().code, ErrorCode::kInvalid);
  const std::string huge = Write("huge.toml", std::string(2 << 20, '#'));
  EXPECT_EQ(Load({.files = {{huge, false}}}).error().code, ErrorCode::kInvalid);
  const std::string binary = Write("binary.toml", std::string("\xff\xfe\0\x01", 4));
  EXPECT_THAT(Load({.files = {{binary, false}}}).error().message, HasSubstr("binary.toml:1: "));
  EXPECT_FALSE(Load({.files = {{dir_, false}}}));
}

// The target of a drop-in link may be on a file system that is not mounted.
TEST_F(SettingsFiles, ALinkThatLeadsNowhereIsNotAMissingFile) {
  const std::string link = dir_ + "/10-limits.toml", target = dir_ + "/site.toml";
  std::filesystem::create_symlink(target, link);
  const Result<Loaded> dangling = Load({.files = {{link, true}}});
  ASSERT_FALSE(dangling);
  EXPECT_EQ(dangling.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(dangling.error().message, HasSubstr(link + ": No such file"));
  EXPECT_THAT(dangling.error().message, HasSubstr("the link is broken"));
  Write("site.toml", "[task]\nmax_queued = 7\n");
  EXPECT_EQ(Load({.files = {{link, true}}})->settings.max_queued_tasks, 7U);
}

class SettingsAgain : public SettingsFiles {
 protected:
  Result<Reread> Again(const std::string& before, const std::string& now) {
    const Result<Loaded> running =
        Load({.files = {{Write("f.toml", before), false}}, .root = true});
    EXPECT_TRUE(running) << running.error().message;
    return LoadAgain({.files = {{Write("f.toml", now), false}}, .root = true}, *running);
  }
};

TEST_F(SettingsAgain, LiveKeysChangeAndTheOthersStay) {
  using Words = std::vector<std::string>;
  struct Case {
    std::string name, before, now;
    Words changed, need_restart;
  } cases[] = {
      {"no change", "policy.margin = '1G'", "policy.margin = '1024M'  # the same", {}, {}},
      {"a live key", "", "policy.margin = '1G'", {"policy.margin"}, {}},
      {"a key back to its default", "task.max_queued = 5", "", {"task.max_queued"}, {}},
      {"a key that needs a restart", "", "monitor.window = '2m'", {}, {"monitor.window"}},
      {"both",
       "",
       "daemon.socket = '/s'\ndaemon.admins = ['ada']",
       {"daemon.admins"},
       {"daemon.socket"}},
      {"another mapper with the same values",
       "policy.mapper = 'magm'",
       "policy.mapper = 'lug'",
       {"policy.mapper"},
       {}},
      {"a mapper with other values",
       "policy.margin = '1G'",
       "policy.margin = '1G'\npolicy.mapper = 'magm'",
       {"policy.mapper", "policy.sm_cap", "policy.floor", "policy.min_gain", "policy.backfill",
        "policy.pass_limit"},
       {}},
      {"to a mapper that never shares", "", "policy.mapper = 'exclusive'", {}, {"policy.mapper"}},
      {"from a mapper that never shares", "policy.mapper = 'exclusive'", "", {}, {"policy.mapper"}},
      {"a method that never shares",
       "",
       "collocation.method = 'exclusive'",
       {},
       {"policy.mapper", "collocation.method"}},
      {"the published rules determine other keys",
       "",
       "policy.published = 'v2'\ntask.max_queued = 5",
       {"task.max_queued"},
       {"policy.published"}},
  };
  for (const Case& each : cases) {
    const Result<Reread> reread = Again(each.before, each.now);
    ASSERT_TRUE(reread) << each.name << ": " << reread.error().message;
    EXPECT_EQ(reread->changed, each.changed) << each.name;
    EXPECT_EQ(reread->need_restart, each.need_restart) << each.name;
  }
}

TEST_F(SettingsAgain, UnchangedKeysKeepTheirValueAndOrigin) {
  const Result<Reread> reread =
      Again("monitor.window = '2m'\n", "\n\nmonitor.window = '3m'\npolicy.sm_cap = 0.5\n");
  ASSERT_TRUE(reread) << reread.error().message;
  const Loaded& loaded = reread->loaded;
  EXPECT_EQ(loaded.settings.window, base::Duration(120'000));
  EXPECT_EQ(loaded.settings.policy.sm_cap, 0.5);
  EXPECT_EQ(loaded.origins.at("monitor.window").value, "\"2m\"");
  EXPECT_THAT(loaded.origins.at("monitor.window").where, HasSubstr("f.toml:1"));
  EXPECT_THAT(loaded.origins.at("policy.sm_cap").where, HasSubstr("f.toml:4"));
}

TEST_F(SettingsAgain, RefusesMistakesAndContradictionsWithKeptKeys) {
  EXPECT_THAT(Again("", "\npolicy.sm_cap = 80").error().message,
              HasSubstr("f.toml:2: policy.sm_cap: "));
  // The new value is valid by itself, but the old sample period applies until a restart.
  const Result<Reread> together = Again("monitor.sample_period = '4s'",
                                        "policy.stale_after = '3s'\nmonitor.sample_period = '1s'");
  ASSERT_FALSE(together);
  EXPECT_THAT(together.error().message, HasSubstr("until a restart (monitor.sample_period)"));
  EXPECT_THAT(together.error().message, HasSubstr("f.toml:1: policy.stale_after"));
}

}  // namespace
}  // namespace carma::config
