#include "config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/keys.h"
#include "config/names.h"
#include "config/settings_fixture.h"

namespace carma::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

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
  EXPECT_EQ(PolicyFor(s, core::SharingMethod::kStreams).backfill, 1) << "not for MIG instances";
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

// For each key, a valid value that differs from its default, and a value that must be rejected.
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
  EXPECT_EQ(tested, known) << "a key has no test case here";
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
    EXPECT_EQ(PolicyFor(settings, method).streams_tasks, 2) << "for shared MIG instances";
  }
}

TEST(Settings, ThePublishedRulesAreTheSameUnderStreams) {
  const Settings settings = FromText("[policy]\npublished = \"v2\"\nsm_cap = 0.8").settings;
  EXPECT_EQ(PolicyFor(settings, core::SharingMethod::kStreams).sm_cap, 0.8);
  EXPECT_EQ(settings.policy.streams_sm_cap, 0.8) << "and on MIG instances";
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

}  // namespace
}  // namespace carma::config
