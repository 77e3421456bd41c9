#include "config/settings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "config/keys.h"
#include "config/names.h"
#include "test_paths.h"

namespace carma::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Loaded FromText(const std::string& text) {
  Result<Loaded> loaded = LoadText("f.toml", text, /*root=*/true);
  EXPECT_TRUE(loaded) << text << "\n" << loaded.error().message;
  return loaded ? *std::move(loaded) : Loaded{};
}

std::string ErrorOf(const std::string& text) {
  const Result<Loaded> loaded = LoadText("f.toml", text, /*root=*/true);
  if (loaded) return "no error";
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalid) << text;
  return loaded.error().message;
}

TEST(Settings, TheDefaultMapperBringsItsOwnValues) {
  const Settings s = FromText("").settings;
  EXPECT_EQ(s.policy.mapper, "by-work");
  EXPECT_EQ(s.policy.sm_cap, 0.95);
  EXPECT_EQ(s.policy.floor_share, 0.375);
  EXPECT_EQ(s.policy.margin_mib, 2 * 1024);
  EXPECT_EQ(s.policy.min_gain, 0.06);
  EXPECT_EQ(s.policy.backfill, 1000);
  EXPECT_EQ(s.policy.pass_limit, base::Duration(7'200'000));
  EXPECT_EQ(s.window, base::Duration(60'000));
  EXPECT_EQ(s.sample_period, base::Duration(1'000));
  EXPECT_EQ(s.socket, "/run/carma/carmad.sock");
  EXPECT_EQ(s.state_dir, "/var/lib/carma");
}

TEST(Settings, ExplicitValuesReplaceThoseOfTheMapper) {
  const Loaded magm = FromText("[policy]\nmapper = \"magm\"\nmargin = \"1G\"");
  EXPECT_EQ(magm.settings.policy.sm_cap, 0.80) << "the dissertation's values";
  EXPECT_EQ(magm.settings.policy.floor_mib, 5 * 1024);
  EXPECT_EQ(magm.settings.policy.floor_share, 0);
  EXPECT_EQ(magm.settings.policy.backfill, 1);
  EXPECT_EQ(magm.settings.policy.margin_mib, 1024);
  const Settings set = FromText("[policy]\nsm_cap = 0.8\nfloor = \"5G\"\nbackfill = 1").settings;
  EXPECT_EQ(set.policy.sm_cap, 0.80) << "set explicitly, even to another mapper's value";
  EXPECT_EQ(set.policy.floor_mib, 5 * 1024);
  EXPECT_EQ(set.policy.floor_share, 0);
  EXPECT_EQ(set.policy.backfill, 1);
  EXPECT_EQ(set.policy.min_gain, 0.06);
}

TEST(Settings, TheMapperFollowsFromTheWayOfSharing) {
  Settings s = FromText("policy.margin = '3G'").settings;
  EXPECT_EQ(PolicyFor(s, core::SharingMethod::kMps).mapper, "by-work");
  const core::PolicyConfig streams = PolicyFor(s, core::SharingMethod::kStreams);
  EXPECT_EQ(streams.mapper, "magm");
  EXPECT_EQ(streams.backfill, 10) << "under streams, more tasks may pass the head";
  EXPECT_EQ(streams.min_gain, std::nullopt);
  EXPECT_EQ(streams.margin_mib, 3 * 1024) << "it was set";
  s.divided = true;
  EXPECT_EQ(PolicyFor(s, core::SharingMethod::kMps).mapper, "magm");
  EXPECT_EQ(PolicyFor(s, core::SharingMethod::kStreams).backfill, 1) << "of instances";
  const Settings set = FromText("policy.backfill = 3").settings;
  EXPECT_EQ(PolicyFor(set, core::SharingMethod::kStreams).backfill, 3);
  const Settings named = FromText("policy.mapper = 'by-work'").settings;
  EXPECT_EQ(PolicyFor(named, core::SharingMethod::kStreams).mapper, "by-work");
}

TEST(Settings, AFloorMayBeAShareOfTheGpu) {
  const Settings s = FromText("policy.floor = 0.5").settings;
  EXPECT_EQ(core::FloorMib(s.policy, 40'000), 20'000);
  EXPECT_EQ(core::FloorMib(FromText("policy.floor = 512").settings.policy, 40'000), 512);
}

// For each key, an accepted text that differs from its default, and a text that must be refused.
struct KeyCase {
  const char* name;
  const char* good;  // as `get` writes it
  const char* bad;
};
constexpr KeyCase kKeyCases[] = {
    {"daemon.socket", R"("/run/x.sock")", R"("relative.sock")"},
    {"daemon.state_dir", R"("/srv/carma")", R"("")"},
    {"daemon.socket_mode", R"("0660")", R"("0999")"},
    {"daemon.socket_group", R"("gpu")", R"("a\u0007b")"},
    {"daemon.allow_users", R"(["ada", "bob"])", R"([1])"},
    {"daemon.allow_groups", R"(["vision"])", R"([1])"},
    {"daemon.log_level", R"("warn")", R"("loud")"},
    {"daemon.http_port", "8080", "70000"},
    {"daemon.keep_finished_days", "7", "0"},
    {"daemon.admins", R"(["ada", "bob"])", R"([1])"},
    {"daemon.gpus", R"(["0", "GPU-3f2a"])", R"(["GPU 3"])"},
    {"policy.mapper", R"("lug")", R"("cleverest")"},
    {"policy.published", R"("thesis")", R"("v9")"},
    {"policy.sm_cap", "0.75", "1.5"},
    {"policy.without_sm_activity", R"("memory")", R"("guess")"},
    {"policy.margin", R"("512M")", R"("-1G")"},
    {"policy.floor", R"("3G")", R"("three")"},
    {"policy.plateau_after", R"("5m")", R"("10")"},
    {"policy.min_gain", "0.06", "1.5"},
    {"policy.max_slowdown", "2.5", "0.5"},
    {"policy.score", R"("free_mib - 2000 * tasks")", R"("free_mib -")"},
    {"policy.require", R"("own_tasks < 2 or mig")", R"("tasks < two")"},
    {"policy.backfill", "1000", "0"},
    {"policy.lookahead", "8", "-1"},
    {"policy.pass_limit", R"("2h")", "5"},
    {"policy.settle", "false", R"("perhaps")"},
    {"policy.settle_timeout", R"("90s")", R"("60")"},
    {"policy.stale_after", R"("1500ms")", R"("1ms")"},
    {"policy.max_tasks_per_gpu", "4", "0"},
    {"policy.idle_first", "true", "1"},
    {"policy.use_given_memory", "false", "0.5"},
    {"policy.order", R"("fair")", R"("random")"},
    {"fair.half_life", R"("7d")", R"("7")"},
    {"fair.patience", R"("6h")", "0"},
    {"fair.weights", R"(["ada=2", "bob=0.5"])", R"(["ada"])"},
    {"fair.accounts", R"(["vision: ada bob", "course: *"])", R"(["vision"])"},
    {"fair.classes", R"(["interactive priority=10", "normal"])", R"(["two words"])"},
    {"limits.rules", R"(["user=* running=4 gpu_hours=20/7d", "account=* memory=80G"])",
     R"(["user=ada"])"},
    {"slots.length", R"("12h")", R"("half a day")"},
    {"slots.notice", R"("5m")", "5"},
    {"slots.preempt_notice", R"("30s")", "true"},
    {"slots.shutdown_notice", R"("5m")", R"("21m")"},
    {"slots.without_checkpoint", R"("once")", R"("twice")"},
    {"slots.checkpoint_signal", R"("USR2")", R"("KILL")"},
    {"slots.exit_codes", "[85, 3]", "[256]"},
    {"slots.exempt", R"(["interactive"])", R"(["two words"])"},
    {"reserve.lead", R"("2h")", R"("2")"},
    {"reserve.makers", R"(["ada"])", R"("ada")"},
    {"recovery.mode", R"("exclusive")", R"("never")"},
    {"recovery.step", R"("1G")", "true"},
    {"recovery.backoff", R"("1m")", R"("2d")"},
    {"recovery.patience", R"("1h")", "10"},
    {"recovery.blocks", "true", R"("")"},
    {"recovery.every_failure_is_oom", "true", "[]"},
    {"recovery.max_launch_failures", "0", "-1"},
    {"recovery.max_node_failures", "2", "1.5"},
    {"recovery.max_victim_restarts", "2", "-1"},
    {"collocation.method", R"("mps")", R"("mig")"},
    {"collocation.streams_sm_cap", "0.5", "1.5"},
    {"collocation.streams_tasks", "2", "0"},
    {"collocation.mps_control", R"("/opt/mps-control")", R"("bin/control")"},
    {"collocation.mps_dir", R"("/run/mps")", R"("mps")"},
    {"collocation.mps_servers", R"("shared")", R"("task")"},
    {"collocation.sm_partitions", "true", R"("perhaps")"},
    {"collocation.mps_clients", "16", "61"},
    {"collocation.mps_memory_limit", "false", "2"},
    {"collocation.mps_timeout", R"("5s")", R"("1ms")"},
    {"collocation.share_mig", "true", R"("perhaps")"},
    {"monitor.sample_period", R"("250ms")", R"("1h")"},
    {"monitor.window", R"("30s")", R"("2h")"},
    {"monitor.ewma", R"("30s")", R"("2h")"},
    {"monitor.history", R"("1h")", R"("2d")"},
    {"monitor.unattributed", R"("4G")", R"("-1G")"},
    {"monitor.probe_timeout", R"("5s")", "1979-05-27"},
    {"monitor.nvml_library", R"("/opt/libnvidia-ml.so")", R"("lib/relative.so")"},
    {"monitor.kernel_log", R"("/var/log/kern")", R"("kmsg")"},
    {"monitor.gpu_speeds", R"(["a6000=0.5", "h100=2.6"])", R"(["a6000"])"},
    {"monitor.source", R"("dcgm")", R"("gpm")"},
    {"health.drain", "false", R"("maybe")"},
    {"health.resume", "false", "2"},
    {"health.ignore_xids", "[63, 94]", "[0]"},
    {"idle.after", R"("10m")", R"("0s")"},
    {"idle.below", "0.05", "0.6"},
    {"idle.action", R"("share")", R"("kill")"},
    {"notify.enabled", "false", "2"},
    {"notify.allow", R"(["mail", "program"])", R"(["pigeon"])"},
    {"notify.per_user_and_hour", "7", "0"},
    {"notify.time_limit", R"("5s")", R"("1h")"},
    {"notify.sendmail", R"("/usr/bin/msmtp")", R"("msmtp")"},
    {"notify.admin", R"(["root@example.org", "/usr/bin/tell"])", R"(["tell"])"},
    {"slurm.enabled", "true", "2"},
    {"slurm.retries", "5", "101"},
    {"slurm.scontrol", R"("/opt/slurm/bin/scontrol")", R"("scontrol")"},
    {"slurm.squeue", R"("/opt/slurm/bin/squeue")", R"("squeue")"},
    {"estimate.method", R"("given")", R"("oracle")"},
    {"estimate.coverage", "0.95", "1"},
    {"estimate.time_limit", R"("2s")", R"("1ms")"},
    {"estimate.history", "false", "2"},
    {"estimate.prefer_given", "false", R"("sometimes")"},
    {"estimate.profiles", R"("/etc/carma/profiles.csv")", R"("profiles.csv")"},
    {"task.kill_grace", R"("0s")", R"("1w")"},
    {"task.max_output", R"("0M")", R"("2000P")"},
    {"task.output_rotations", "3", "1000"},
    {"task.default_time_limit", R"("12h")", R"("0s")"},
    {"task.max_queued", "5", "0"},
    {"task.max_queued_per_user", "5", "0"},
    {"task.max_processes", "100", "-1"},
    {"task.max_batch", "5", "20000000"},
    {"task.cgroups", "false", R"("2")"},
    {"host.cpus", "12", "-1"},
    {"host.memory", R"("48G")", R"("plenty")"},
    {"host.cpus_per_gpu", "8", "-1"},
    {"host.memory_per_gpu", R"("32G")", "true"},
    {"host.cpu_limit", R"("cap")", R"("hard")"},
    {"simulation.state", R"("/tmp/server.sim")", R"("server.sim")"},
};

TEST(Settings, EveryKeyIsReadFromAFileAndShownAsItWasWritten) {
  std::vector<std::string> tested;
  for (const KeyCase& c : kKeyCases) {
    tested.emplace_back(c.name);
    const Loaded loaded = FromText("\n" + std::string(c.name) + " = " + c.good + "\n");
    if (loaded.origins.empty()) continue;
    EXPECT_EQ(loaded.origins.at(c.name).value, c.good) << c.name;
    EXPECT_EQ(loaded.origins.at(c.name).where, "f.toml:2") << c.name;
  }
  std::vector<std::string> known;
  for (const KeyInfo& key : Keys()) known.push_back(key.name);
  EXPECT_EQ(tested, known) << "a key lacks its case here";
}

TEST(Settings, EveryKeyRefusesInvalidValues) {
  for (const KeyCase& c : kKeyCases) {
    const std::string error = ErrorOf("# a comment\n" + std::string(c.name) + " = " + c.bad);
    EXPECT_THAT(error, HasSubstr("f.toml:2: " + std::string(c.name) + ": expected ")) << c.bad;
  }
}

TEST(Settings, EveryKeyIsReadFromItsVariableAndFromAnOverride) {
  for (const KeyCase& c : kKeyCases) {
    std::string text = c.good;  // without the quotes and brackets of the file
    for (const char mark : {'"', '[', ']'}) std::erase(text, mark);
    const std::string variable = FindKey(c.name)->Variable();
    Result<Loaded> loaded = Load({.environment = {{variable, text}}, .root = true});
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->origins.at(c.name).value, c.good);
    EXPECT_EQ(loaded->origins.at(c.name).where, variable);
    loaded = Load({.overrides = {{c.name, text}}, .root = true});
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->origins.at(c.name).value, c.good);
  }
}

TEST(Settings, MistakesNameThePlaceAndTheExpectedValue) {
  struct Case {
    const char* name;
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"syntax", "[policy]\nmapper = \n", "f.toml:2: "},
      {"unclosed text", "[policy]\nmapper = \"magm\n", "f.toml:2: "},
      {"an invalid header", "[task]\n\n[?policy]\nmapper = 1", "f.toml:3: "},
      {"the same in the last line", "[", "f.toml:1: "},
      {"a control byte in a header", "# x\n[\x01", "f.toml:2: "},
      {"a letter that is not ASCII", "[task]\n# ö\nö = 1", "f.toml:3: expected ASCII"},
      {"after a text of several lines", "x = \"\"\"\n\\\n\"\"\nö\"\"\"\"\"\nı = 1", "f.toml:5: "},
      {"after an escaped quote", "x = '\\'\ny = \"\\\"ö\"\nı", "f.toml:3: expected ASCII"},
      {"in a number", "x = -0'9ı", "f.toml:1: expected ASCII"},
      {"in a form that no key accepts", "x = {a = \"ö\"}", "f.toml:1: expected ASCII"},
      {"in a quoted key", "'ö' = 1", "f.toml:1: expected ASCII"},
      {"unknown key", "[policy]\nmarign = \"2G\"",
       "f.toml:2: policy.marign: no such key, did you mean policy.margin?"},
      {"key without its section", "mapper = \"magm\"",
       "f.toml:1: mapper: no such key, did you mean policy.mapper?"},
      {"nothing like it", "[policy]\nfrobnicate = 1", "f.toml:2: policy.frobnicate: no such key"},
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
      {"ends idle tasks, but does not look for them", "[idle]\nafter = false\naction = \"end\"",
       "f.toml:3: idle.action: expected \"tell\" while idle.after is false"},
      {"shares with idle tasks, but does not look for them",
       "idle.action = \"share\"\nidle.after = false", "f.toml:1: idle.action: expected \"tell\""},
      {"idle before the next sample", "[idle]\nafter = \"2s\"\n[monitor]\nsample_period = \"4s\"",
       "f.toml:2: idle.after: expected at least monitor.sample_period"},
      {"nothing is ever shared",
       "[collocation]\nmethod = \"exclusive\"\n[idle]\naction = \"share\"",
       "f.toml:4: idle.action: expected \"tell\" or \"end\" with policy.mapper = \"exclusive\""},
      {"partitions of a server of several GPUs",
       "[collocation]\nmps_servers = \"user\"\nsm_partitions = true",
       "f.toml:3: collocation.sm_partitions: expected false unless collocation.mps_servers is"},
      {"control bytes", "[daemon]\nlog_level = \"a\\u0007\"", "not 'a?'"},
      {"comma inside a name", "[daemon]\nadmins = [\"a,b\"]", "f.toml:2: daemon.admins: expected"},
      {"a comma inside an item", "limits.rules = ['user=* gpus=2', 'user=*, running=4']",
       "f.toml:1: limits.rules: expected no comma within 'user=*, running=4'"},
      {"a comma between the users of an account", "fair.accounts = ['vision: ada, bob']",
       "f.toml:1: fair.accounts: expected no comma within 'vision: ada, bob'"},
      {"a time slice shorter than its notice", "[slots]\nlength = '5m'",
       "f.toml:2: slots.length: expected at least 600 s (slots.notice), not 300 s"},
      {"a mapper without its expression", "\npolicy.mapper = 'score'",
       "f.toml:2: policy.mapper: \"score\" needs policy.score"},
      {"an unknown estimator", "estimate.method = 'foo'", "expected name of an estimator: auto, "},
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
       "f.toml:4: fair.weights: expected 'ada' once"},
      {"two mistakes", "weights = ['@a=2']\n[limits]\nrules = ['qos=b gpus=1']",
       "f.toml:4: fair.weights: no account 'a' in fair.accounts; f.toml:6: limits.rules: no class"},
  };
  for (const Case& c : cases) EXPECT_THAT(ErrorOf(known + c.text), HasSubstr(c.error)) << c.name;
  EXPECT_THAT(ErrorOf("fair.accounts = ['a: ada', 'a: bob']"),
              HasSubstr("f.toml:1: fair.accounts: expected 'a' once"));
  EXPECT_THAT(ErrorOf("fair.classes = ['normal', 'normal priority=2']"),
              HasSubstr("f.toml:1: fair.classes: expected 'normal' once"));
  FromText(known + "weights = ['@vision=2', 'ada=2']\n[slots]\nexempt = ['night']\n[limits]\n" +
           "rules = ['account=* gpus=2', 'account=vision gpus=2', 'qos=night gpus=1']");
  FromText(
      "fair.classes = []\n[limits]\nrules = ['qos=normal gpus=2']");  // a class that always exists
}

TEST(Settings, NamedUsersAreThoseOfAllKeys) {
  const Settings s =
      FromText(
          "[daemon]\nadmins = ['a']\nallow_users = ['b']\n[reserve]\nmakers = ['c']\n"
          "[fair]\naccounts = ['x: d *']\nweights = ['e=2', '@x=2']\n"
          "[limits]\nrules = ['user=f gpus=1', 'user=* gpus=2']")
          .settings;
  EXPECT_THAT(NamedUsers(s),
              ElementsAre(Pair("a", "daemon.admins"), Pair("b", "daemon.allow_users"),
                          Pair("c", "reserve.makers"), Pair("d", "fair.accounts"),
                          Pair("e", "fair.weights"), Pair("f", "limits.rules")));
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

TEST(Settings, OffIsWrittenAsFalse) {
  const Settings s = FromText("[policy]\nsm_cap = false\n[daemon]\nhttp_port = false").settings;
  EXPECT_EQ(s.policy.sm_cap, std::nullopt);
  EXPECT_EQ(s.http_port, std::nullopt);
  const Result<Loaded> loaded = Load({.environment = {{"CARMA_POLICY_SM_CAP", "off"}}});
  EXPECT_EQ(loaded->settings.policy.sm_cap, std::nullopt);
}

TEST(Settings, AnyLettersMayStandInQuotesAndComments) {
  const Settings s =
      FromText("\xEF\xBB\xBF# ä\n[daemon]\nadmins = [\"ö\", 'ü', \"\"\"\nß\"\"\"] # ı").settings;
  EXPECT_THAT(s.admins, ElementsAre("ö", "ü", "ß"));
}

TEST(Settings, ListsOfNumbersMayBeQuotedAndAnEmptyListIsAny) {
  const auto ignored = [](const std::string& list) {
    return FromText("health.ignore_xids = " + list).settings.health.ignored_xids;
  };
  EXPECT_THAT(ignored("[63, 94]"), ElementsAre(63, 94));
  EXPECT_THAT(ignored("[\"63\", \"94\"]"), ElementsAre(63, 94));
  EXPECT_THAT(ignored("63"), ElementsAre(63));
  EXPECT_THAT(ignored("[]"), ElementsAre());
  EXPECT_THAT(ErrorOf("health.ignore_xids = [63, \"94\"]"), HasSubstr("expected list of numbers"));
  EXPECT_THAT(ErrorOf("daemon.admins = [63]"), HasSubstr("expected list of user names"));
}

TEST(Settings, TheLevelDebugOfOldFilesIsInfo) {
  EXPECT_EQ(FromText("daemon.log_level = \"debug\"").settings.log_level, "info");
  EXPECT_THAT(ErrorOf("daemon.log_level = 'loud'"),
              HasSubstr("expected \"info\", \"warn\" or \"error\""));
}

TEST(Settings, TheAbbreviationOfAMapperIsTaken) {
  EXPECT_EQ(FromText("policy.mapper = \"RR\"").settings.policy.mapper, "round-robin");
}

TEST(Settings, MethodExclusiveSetsTheMapper) {
  const Loaded loaded =
      FromText("[collocation]\nmethod = \"exclusive\"\n[policy]\nmapper = \"lug\"");
  EXPECT_EQ(loaded.settings.policy.mapper, "exclusive");
  EXPECT_EQ(loaded.origins.at("policy.mapper").where, "collocation.method (f.toml:2)");
  EXPECT_EQ(CollocationName(*loaded.settings.collocation), "exclusive");
}

TEST(Settings, FewerTasksMeetWhereTheyShareByStreams) {
  const Settings settings = FromText(
                                "[policy]\nsm_cap = 0.9\nmax_tasks_per_gpu = 12\n"
                                "[collocation]\nstreams_sm_cap = 0.5\nstreams_tasks = 2")
                                .settings;
  EXPECT_EQ(settings.collocation, std::nullopt) << "\"auto\", the default";
  const core::PolicyConfig streams = PolicyFor(settings, core::SharingMethod::kStreams);
  EXPECT_EQ(streams.sm_cap, 0.5);
  EXPECT_EQ(streams.max_tasks_per_gpu, 2);
  for (const auto method : {core::SharingMethod::kMps, core::SharingMethod::kAlone}) {
    EXPECT_EQ(PolicyFor(settings, method).sm_cap, 0.9);
    EXPECT_EQ(PolicyFor(settings, method).max_tasks_per_gpu, 12);
  }
}

TEST(Settings, ThePublishedRulesAreTheSameUnderStreams) {
  const Settings settings = FromText("[policy]\npublished = \"v2\"\nsm_cap = 0.8").settings;
  EXPECT_EQ(PolicyFor(settings, core::SharingMethod::kStreams).sm_cap, 0.8);
}

TEST(Settings, PublishedReplacesTheRulesAndIsTheirOrigin) {
  const Loaded loaded = FromText("[policy]\npublished = \"thesis\"\nsm_cap = 0.75");
  EXPECT_EQ(loaded.settings.policy.pacing, core::Pacing::kThesis);
  EXPECT_EQ(loaded.settings.policy.sm_cap, 0.75);
  EXPECT_EQ(loaded.origins.at("policy.idle_first").value, "true");
  EXPECT_EQ(loaded.origins.at("policy.idle_first").where, "policy.published (f.toml:2)");
  EXPECT_EQ(loaded.origins.at("policy.sm_cap").where, "f.toml:3");
}

TEST(Settings, VariablesThatAreNoKeysArePassedOverUnlessTheyNearlyAre) {
  const std::map<std::string, std::string> of_a_task = {
      {"CARMA_TASK_ID", "7"},      {"CARMA_TASK_NAME", "x"},      {"CARMA_ATTEMPT", "1"},
      {"CARMA_ATTEMPT_DIR", "/x"}, {"CARMA_ARRAY_INDEX", "3"},    {"CARMA_SOCKET", "/x"},
      {"CARMA_SIMGPU_STATE", "y"}, {"CARMA_UNHEARD_OF", "thing"}, {"HOME", "/home/ada"}};
  EXPECT_TRUE(Load({.environment = of_a_task}));
  const Result<Loaded> typo = Load({.environment = {{"CARMA_POLICY_SM_CAPP", "1"}}});
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().message,
            "CARMA_POLICY_SM_CAPP: no such key, did you mean CARMA_POLICY_SM_CAP?");
}

TEST(Settings, PathsOfAnOrdinaryUserFollowItsEnvironment) {
  Result<Loaded> loaded = Load({.environment = {{"HOME", "/home/ada"},
                                                {"XDG_RUNTIME_DIR", "/run/user/7"},
                                                {"XDG_STATE_HOME", "/state"}}});
  EXPECT_EQ(loaded->settings.socket, "/run/user/7/carma/carmad.sock");
  EXPECT_EQ(loaded->settings.state_dir, "/state/carma");
  EXPECT_EQ(loaded->settings.mps_dir, "/run/user/7/carma/mps");
  loaded = Load({.environment = {{"HOME", "/home/ada"}}});
  EXPECT_EQ(loaded->settings.state_dir, "/home/ada/.local/state/carma");
}

TEST(Settings, PipesOfMpsServersMustHaveShortPathsWhereMpsIsUsed) {
  const std::map<std::string, std::string> deep = {{"HOME", "/home/ada"},
                                                   {"XDG_RUNTIME_DIR", "/" + std::string(60, 'r')}};
  EXPECT_TRUE(Load({.environment = deep}));
  const Result<Loaded> loaded =
      Load({.environment = deep, .overrides = {{"collocation.method", "mps"}}});
  ASSERT_FALSE(loaded);
  EXPECT_THAT(
      loaded.error().message,
      HasSubstr("default: collocation.mps_dir: expected absolute path of at most 60 bytes"));
}

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

// For example, a link to a drop-in on a file system that is not mounted.
TEST_F(SettingsFiles, ALinkThatLeadsNowhereIsNotAMissingFile) {
  const std::string link = dir_ + "/10-limits.toml", target = dir_ + "/site.toml";
  std::filesystem::create_symlink(target, link);
  const Result<Loaded> dangling = Load({.files = {{link, true}}});
  ASSERT_FALSE(dangling);
  EXPECT_EQ(dangling.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(dangling.error().message, HasSubstr(link + ": No such file"));
  EXPECT_THAT(dangling.error().message, HasSubstr("the link leads nowhere"));
  Write("site.toml", "[task]\nmax_queued = 7\n");
  EXPECT_EQ(Load({.files = {{link, true}}})->settings.max_queued_tasks, 7U);
}

// ---- rereading the configuration ----

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
      {"nothing new", "policy.margin = '1G'", "policy.margin = '1024M'  # the same", {}, {}},
      {"a live key", "", "policy.margin = '1G'", {"policy.margin"}, {}},
      {"back to its default", "task.max_queued = 5", "", {"task.max_queued"}, {}},
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
      {"and back", "policy.mapper = 'exclusive'", "", {}, {"policy.mapper"}},
      {"by the method",
       "",
       "collocation.method = 'exclusive'",
       {},
       {"policy.mapper", "collocation.method"}},
      {"the published rules decide about other keys",
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
  // The value is valid by itself, but the period is still the old one.
  const Result<Reread> together = Again("monitor.sample_period = '4s'",
                                        "policy.stale_after = '3s'\nmonitor.sample_period = '1s'");
  ASSERT_FALSE(together);
  EXPECT_THAT(together.error().message,
              HasSubstr("only a restart changes (monitor.sample_period)"));
  EXPECT_THAT(together.error().message, HasSubstr("f.toml:1: policy.stale_after"));
}

TEST(SettingsDocs, AcceptsTheRecipesOfTheDocumentation) {
  const std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/docs/server/sharing.md", 1 << 20);
  const std::string begin = "```toml\n";
  int blocks = 0;
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    const std::string block = text.substr(at, text.find("```", at) - at);
    const Result<Loaded> loaded = LoadText("sharing.md", block, true);
    EXPECT_TRUE(loaded) << block << loaded.error().message;
    ++blocks;
  }
  EXPECT_EQ(blocks, 10);
}

TEST(SettingsDocs, TheDocumentationListsEveryKeyAsItIs) {
  const std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/docs/server/configuration.md", 1 << 20);
  std::vector<std::string> rows;
  for (const std::string_view line : base::Split(text, '\n')) {
    if (line.starts_with("- `") && line.find("` (`") != line.npos) rows.emplace_back(line);
  }
  std::vector<std::string> expected;
  for (const KeyInfo& key : Keys()) {
    const std::string values = key.type.starts_with('"') ? " of " + key.type : "";
    expected.push_back("- `" + key.name + "` (`" + key.default_value + "`" + values +
                       "): " + key.meaning + (key.live ? "" : " Needs a restart."));
  }
  EXPECT_EQ(rows, expected);
}

TEST(SettingsDocs, ListsTheQuantitiesOfOwnRules) {
  const std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/docs/server/policies.md", 1 << 20);
  for (const core::RuleQuantity& each : core::RuleQuantities()) {
    EXPECT_THAT(text, HasSubstr("| `" + std::string(each.name) + "` | " +
                                std::string(each.meaning) + " |\n"));
  }
}

TEST(SettingsDocs, TheExampleFileHoldsEveryKeyWithItsDefault) {
  std::string text =
      *base::ReadFile(std::string(CARMA_SOURCE_DIR) + "/packaging/carma.toml", 1 << 20);
  ASSERT_TRUE(LoadText("packaging/carma.toml", text, true));
  std::string uncommented;  // "#key = value" is an example, "## text" explains
  for (const std::string_view line : base::Split(text, '\n')) {
    const bool example =
        line.starts_with('#') && line.size() > 1 && line[1] != '#' && line[1] != ' ';
    uncommented += std::string(line.substr(example ? 1 : 0)) + "\n";
  }
  const Loaded loaded = FromText(uncommented);
  for (const KeyInfo& key : Keys()) {
    EXPECT_EQ(loaded.origins.at(key.name).value, key.default_value) << key.name;
    EXPECT_THAT(loaded.origins.at(key.name).where, HasSubstr("f.toml:")) << key.name;
  }
}

TEST(LoadText, TheWrongItemOfAListIsNamedOnceWithTheReason) {
  EXPECT_EQ(ErrorOf("\nlimits.rules = ['user=* running=4', 'user=* length=4']"),
            "f.toml:2: limits.rules: expected a time span with unit like length=12h, got "
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
