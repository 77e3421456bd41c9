// Tests the error messages for invalid settings.
#include "config/settings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/names.h"
#include "config/settings_fixture.h"

namespace carma::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Settings, MistakesNameThePlaceAndTheExpectedValue) {
  struct Case {
    const char* name;
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"syntax", "[policy]\nmapper = \n", "f.toml:2: "},
      {"unclosed string", "[policy]\nmapper = \"magm\n", "f.toml:2: "},
      {"an invalid header", "[task]\n\n[?policy]\nmapper = 1", "f.toml:3: "},
      {"an invalid header in the last line", "[", "f.toml:1: "},
      {"a control byte in a header", "# x\n[\x01", "f.toml:2: "},
      {"a letter that is not ASCII", "[task]\n# ö\nö = 1", "f.toml:3: non-ASCII character"},
      {"after a multi-line string", "x = \"\"\"\n\\\n\"\"\nö\"\"\"\"\"\nı = 1", "f.toml:5: "},
      {"after an escaped quote", "x = '\\'\ny = \"\\\"ö\"\nı", "f.toml:3: non-ASCII character"},
      {"in a number", "x = -0'9ı", "f.toml:1: non-ASCII character"},
      {"in a type that no key accepts", "x = {a = \"ö\"}", "f.toml:1: non-ASCII character"},
      {"in a quoted key", "'ö' = 1", "f.toml:1: non-ASCII character"},
      {"unknown key", "[policy]\nmarign = \"2G\"",
       "f.toml:2: policy.marign: no such key, did you mean policy.margin?"},
      {"key without its section", "mapper = \"magm\"",
       "f.toml:1: mapper: no such key, did you mean policy.mapper?"},
      {"no similar key", "[policy]\nfrobnicate = 1", "f.toml:2: policy.frobnicate: no such key"},
      {"a list of sections", "[[policy]]\nmapper = 'magm'",
       "f.toml:1: policy: expected a section, [policy]"},
      {"a value for a section", "policy = 3", "f.toml:1: policy: expected a section, [policy]"},
      {"unknown section", "[polcy]\n", "f.toml:1: polcy: no such key"},
      {"a table for a value", "[policy.mapper]\nname = 1", "f.toml:2: policy.mapper.name: no such"},
      {"an empty table for a value", "[policy.mapper]\n", "f.toml:1: policy.mapper: expected "},
      {"the first mistake is reported", "[task]\nx = 1\n[daemon]\ny = 1", "f.toml:2: task.x: "},
      {"wrong type", "[policy]\nsm_cap = [0.8]",
       "f.toml:2: policy.sm_cap: expected fraction above 0 and at most 1, or false"},
      {"out of range", "[policy]\n\nsm_cap = 80",
       "f.toml:3: policy.sm_cap: expected fraction above 0 and at most 1, or false, not '80'"},
      {"a number in quotes", "[policy]\nmax_tasks_per_gpu = \"4\"", "f.toml:2: policy.max_tasks"},
      {"given twice", "[task]\ncgroups = true\ncgroups = false", "f.toml:3: "},
      {"window shorter than a sample", "[monitor]\nsample_period = \"2s\"\nwindow = \"1s\"",
       "f.toml:3: monitor.window: expected at least monitor.sample_period"},
      {"samples are always stale", "[monitor]\nsample_period = \"10s\"",
       "f.toml:2: policy.stale_after: expected more than monitor.sample_period"},
      {"ends idle tasks but does not detect them", "[idle]\nafter = false\naction = \"end\"",
       "f.toml:3: idle.action: expected \"tell\" while idle.after is false"},
      {"shares with idle tasks but does not detect them",
       "idle.action = \"share\"\nidle.after = false", "f.toml:1: idle.action: expected \"tell\""},
      {"idle before the next sample", "[idle]\nafter = \"2s\"\n[monitor]\nsample_period = \"4s\"",
       "f.toml:2: idle.after: expected at least monitor.sample_period"},
      {"tasks never share GPUs",
       "[collocation]\nmethod = \"exclusive\"\n[idle]\naction = \"share\"",
       "f.toml:4: idle.action: expected \"tell\" or \"end\" with policy.mapper = \"exclusive\""},
      {"partitions with one server for several GPUs",
       "[collocation]\nmps_servers = \"user\"\nsm_partitions = true",
       "f.toml:3: collocation.sm_partitions: expected false unless collocation.mps_servers is"},
      {"control bytes", "[daemon]\nlog_level = \"a\\u0007\"", "not 'a?'"},
      {"comma inside a name", "[daemon]\nadmins = [\"a,b\"]",
       "f.toml:2: daemon.admins: 'a,b' must not contain a comma"},
      {"a comma inside an item", "limits.rules = ['user=* gpus=2', 'user=*, running=4']",
       "f.toml:1: limits.rules: 'user=*, running=4' must not contain a comma"},
      {"a comma between the users of an account", "fair.accounts = ['vision: ada, bob']",
       "f.toml:1: fair.accounts: 'vision: ada, bob' must not contain a comma"},
      {"a time slice shorter than its notice", "[slots]\nlength = '5m'",
       "f.toml:2: slots.length: expected at least 600 s (slots.notice), not 300 s"},
      {"a mapper without its expression", "\npolicy.mapper = 'score'",
       "f.toml:2: policy.mapper: \"score\" requires policy.score to be set"},
      {"an unknown estimator", "estimate.method = 'foo'", "expected estimator name: auto, "},
  };
  for (const Case& c : cases) EXPECT_THAT(ErrorOf(c.text), HasSubstr(c.error)) << c.name;
}

TEST(Settings, SizesWithoutUnitAreWholeNumbers) {
  for (const char* size : {"0.5", "5.0", "\"0.5\"", "1e3"}) {
    for (const char* key : {"policy.margin", "host.memory", "monitor.unattributed"}) {
      EXPECT_THAT(ErrorOf(fmt::format("{} = {}", key, size)),
                  HasSubstr("expected memory size like \"2G\" or \"512M\""))
          << key << size;
    }
  }
  EXPECT_THAT(ErrorOf("policy.floor = 1.0"), HasSubstr("a fraction below 1"));
  EXPECT_EQ(FromText("policy.margin = '0.5G'").settings.policy.margin_mib, 512);
  EXPECT_EQ(FromText("policy.margin = 512").settings.policy.margin_mib, 512);
  EXPECT_EQ(FromText("policy.sm_cap = 1.0").settings.policy.sm_cap, 1);
}

TEST(Settings, NamesThatAreNotConfiguredAreRefused) {
  const std::string known = "[fair]\naccounts = ['vision: ada']\nclasses = ['normal', 'night']\n";
  struct Case {
    const char* name;
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"account of a limit", "[limits]\nrules = ['account=vsion running=2']",
       "f.toml:5: limits.rules: no account 'vsion' in fair.accounts, did you mean vision?"},
      {"class of a limit", "[limits]\nrules = ['qos=interactive running=2']",
       "f.toml:5: limits.rules: no class 'interactive' in fair.classes"},
      {"account with a weight", "weights = ['@nosuch=2']",
       "f.toml:4: fair.weights: no account 'nosuch' in fair.accounts"},
      {"class without time slices", "[slots]\nexempt = ['nihgt']",
       "f.toml:5: slots.exempt: no class 'nihgt' in fair.classes, did you mean night?"},
      {"two weights of a user", "weights = ['ada=2', 'bob=1', 'ada=3']",
       "f.toml:4: fair.weights: 'ada' is listed more than once"},
      {"two mistakes", "weights = ['@a=2']\n[limits]\nrules = ['qos=b gpus=1']",
       "f.toml:4: fair.weights: no account 'a' in fair.accounts; f.toml:6: limits.rules: no class"},
  };
  for (const Case& c : cases) EXPECT_THAT(ErrorOf(known + c.text), HasSubstr(c.error)) << c.name;
  EXPECT_THAT(ErrorOf("fair.accounts = ['a: ada', 'a: bob']"),
              HasSubstr("f.toml:1: fair.accounts: 'a' is listed more than once"));
  EXPECT_THAT(ErrorOf("fair.classes = ['normal', 'normal priority=2']"),
              HasSubstr("f.toml:1: fair.classes: 'normal' is listed more than once"));
  FromText(known + "weights = ['@vision=2', 'ada=2']\n[slots]\nexempt = ['night']\n[limits]\n" +
           "rules = ['account=* gpus=2', 'account=vision gpus=2', 'qos=night gpus=1']");
  FromText(
      "fair.classes = []\n[limits]\nrules = ['qos=normal gpus=2']");  // a class that always exists
}

TEST(Settings, UnknownUsersAndGroupsAreNamedWithTheirKey) {
  const Settings s = FromText(
                         "[daemon]\nadmins = ['root', 'nobodyhere']\n"
                         "allow_groups = ['nogroup_x', 'root']\nsocket_group = 'nogroup_y'\n")
                         .settings;
  const std::vector<NameMistake> unknown = UnknownNames(s);
  ASSERT_EQ(unknown.size(), 2U);
  EXPECT_EQ(unknown[0].key, "daemon.allow_groups");
  EXPECT_EQ(unknown[0].what, "no group 'nogroup_x'");
  EXPECT_EQ(unknown[1].key, "daemon.admins");
  EXPECT_EQ(unknown[1].what, "no user 'nobodyhere'");
  EXPECT_THAT(CheckSocketGroup(s).error().message, HasSubstr("daemon.socket_group: no group"));
  EXPECT_TRUE(CheckSocketGroup({}));
}

TEST(LoadText, TheWrongItemOfAListIsNamedOnceWithTheReason) {
  EXPECT_EQ(ErrorOf("\nlimits.rules = ['user=* running=4', 'user=* length=4']"),
            "f.toml:2: limits.rules: expected a time span with a unit, like length=12h, got "
            "'length=4' in 'user=* length=4'");
  EXPECT_THAT(ErrorOf("limits.rules = ['user=zed runing=2']"),
              AllOf(HasSubstr("expected words like user=*"),
                    HasSubstr("got 'runing=2' in 'user=zed runing=2'")));
  EXPECT_EQ(ErrorOf("fair.weights = ['ada=2', 'bob']"),
            "f.toml:1: fair.weights: expected a weight like 'ada=2' or '@vision=3', got 'bob'");
}

TEST(LoadText, AllMistakesAreNamedAtOnce) {
  const auto loaded = LoadText("f.toml", "[policy]\nmarign = 1\nmapper = 3\nbackfill = 5\n", true);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message.substr(0, 66),
            "f.toml:2: policy.marign: no such key, did you mean policy.margin?;");
  EXPECT_NE(loaded.error().message.find("; f.toml:3: policy.mapper: expected"), std::string::npos)
      << loaded.error().message;
}

}  // namespace
}  // namespace carma::config
