#include "cli/slurm/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "cli/fake_daemon.h"

namespace carma::cli {
namespace {

using ::testing::HasSubstr;

std::vector<api::GpuView> Gpus(int count) {
  api::GpuView gpu;
  gpu.total_mib = 40'960;
  gpu.reserved_mib = 424;
  return std::vector<api::GpuView>(static_cast<std::size_t>(count), gpu);
}

// A node without problems.
SlurmFacts Good() {
  SlurmFacts facts{.node = "n1", .socket = "/run/carma/carmad.sock", .gpus = Gpus(4)};
  facts.config = {{"Prolog", "/usr/lib/carma/slurm/prolog"},
                  {"Epilog", "/usr/lib/carma/slurm/epilog"},
                  {"SchedulerParameters", "bf_interval=2,nohold_on_prolog_fail"},
                  {"JobSubmitPlugins", "lua"},
                  {"AuthInfo", "socket=/run/munge,cred_expire=30"}};
  facts.node_config = {{"Gres", "carma:156"}, {"Partitions", "main,apart"}};
  facts.partitions = ReadPartitions(
      "PartitionName=main AllowGroups=ALL LLN=YES\nPartitionName=apart LLN=YES\n"
      "PartitionName=other LLN=NO\n");
  facts.plugin = PluginLine{true, "/usr/lib/carma/slurm/spank_carma.so", ""};
  facts.release = facts.plugin_release = "22.05.8";
  return facts;
}

const Finding& Of(const std::vector<Finding>& findings, const std::string& topic) {
  const auto found = std::ranges::find(findings, topic, &Finding::topic);
  EXPECT_NE(found, findings.end()) << topic;
  return *found;
}

TEST(SlurmSite, LinesNameTheCountOfTheNode) {
  EXPECT_EQ(UsableGib(Gpus(4)), 156);
  EXPECT_EQ(SmallestGib(Gpus(4)), 39);
  EXPECT_EQ(SmallestGib({}), 0);
  EXPECT_EQ(LargestGib({}), 0);
  const std::string text = ConfigText({"gpu01", "/usr/lib/carma/slurm", "/run/c.sock"}, Gpus(2));
  EXPECT_THAT(text, HasSubstr("NodeName=gpu01 Name=carma Count=78\n"));
  EXPECT_THAT(text, HasSubstr("required /usr/lib/carma/slurm/spank_carma.so socket=/run/c.sock\n"));
  EXPECT_THAT(text, HasSubstr("carma_gib_per_gpu = 39\ncarma_largest_gpu_gib = 39 "));
  EXPECT_THAT(text, HasSubstr("LLN=YES"));
}

TEST(SlurmSite, TheLinesNameTheSocketThatIsUsedByDefault) {
  FakeDaemon daemon;
  daemon.On("GET /v1/gpus",
            [](const api::Request&) { return api::Response{.body = R"({"gpus":[]})"}; });
  ::setenv("CARMA_SOCKET", daemon.socket_path().c_str(), 1);
  const Ran ran = RunWords("", {"slurm", "config", "--node", "n1"});
  ::unsetenv("CARMA_SOCKET");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("spank_carma.so socket=" + daemon.socket_path() + "\n"));
}

TEST(SlurmSite, ACorrectNodeHasNoProblems) {
  const std::vector<Finding> findings = CheckSlurm(Good());
  EXPECT_EQ(findings.size(), 9U);
  for (const Finding& each : findings) EXPECT_EQ(each.level, Level::kOk) << each.topic << each.text;
}

TEST(SlurmSite, ReportsProblemsWithTheirRemedies) {
  struct Case {
    const char* topic;
    Level level;
    const char* text;
    void (*spoil)(SlurmFacts&);
  };
  const Case cases[] = {
      {"carmad", Level::kBad, "no answer",
       [](SlurmFacts& facts) { facts.gpus = Unavailable("no answer"); }},
      {"plug-in", Level::kBad, "no line", [](SlurmFacts& facts) { facts.plugin.reset(); }},
      {"plug-in", Level::kBad, "no CARMA plug-in at this path",
       [](SlurmFacts& facts) { facts.plugin_release.clear(); }},
      {"plug-in", Level::kBad, "built for Slurm 22.05.8, but this is Slurm 23.11.4",
       [](SlurmFacts& facts) { facts.release = "23.11.4"; }},
      {"plug-in", Level::kWarn, "optional",
       [](SlurmFacts& facts) { facts.plugin->required = false; }},
      {"plug-in", Level::kWarn, "connects to /other",
       [](SlurmFacts& facts) { facts.plugin->socket = "/other"; }},
      {"gres", Level::kBad, "does not track GPU memory",
       [](SlurmFacts& facts) { facts.node_config["Gres"] = "gpu:4"; }},
      {"gres", Level::kBad, "counts 160 GiB, but the GPUs have 156",
       [](SlurmFacts& facts) { facts.node_config["Gres"] = "carma:160"; }},
      {"gres", Level::kWarn, "counts 100 GiB",
       [](SlurmFacts& facts) { facts.node_config["Gres"] = "carma:100(S:0)"; }},
      {"spreading", Level::kWarn, "apart: jobs wait on a full node while others are idle",
       [](SlurmFacts& facts) { facts.partitions["apart"]["LLN"] = "NO"; }},
      {"devices", Level::kWarn, "allocates GPUs",
       [](SlurmFacts& facts) { facts.node_config["Gres"] = "gpu:a100:4,carma:156"; }},
      {"prolog", Level::kWarn, "not set",
       [](SlurmFacts& facts) { facts.config["Prolog"] = "(null)"; }},
      {"prolog", Level::kWarn, "held",
       [](SlurmFacts& facts) { facts.config["SchedulerParameters"] = "x"; }},
      {"prolog", Level::kWarn, "slurm/prolog does not mention carma",
       [](SlurmFacts& facts) { facts.prolog = "#!/bin/sh\nexit 0\n"; }},
      {"epilog", Level::kWarn, "not set", [](SlurmFacts& facts) { facts.config.erase("Epilog"); }},
      {"epilog", Level::kWarn, "slurm/epilog does not mention carma",
       [](SlurmFacts& facts) { facts.epilog = "#!/bin/sh\nexit 0\n"; }},
      {"submission", Level::kWarn, "job_submit.lua does not mention carma",
       [](SlurmFacts& facts) { facts.submission = "function slurm_job_submit() end"; }},
      {"retries", Level::kWarn, "slurm.enabled is false",
       [](SlurmFacts& facts) { facts.requeues = false; }},
      {"retries", Level::kWarn, "has changed since carmad started",
       [](SlurmFacts& facts) { facts.restart = true; }},
      {"submission", Level::kWarn, "does not count",
       [](SlurmFacts& facts) { facts.config["JobSubmitPlugins"] = "(null)"; }},
      {"retries", Level::kWarn, "120 s", [](SlurmFacts& facts) { facts.config["AuthInfo"] = ""; }},
      {"slurm", Level::kBad, "scontrol", [](SlurmFacts& facts) { facts.config.clear(); }},
  };
  for (const Case& each : cases) {
    SlurmFacts facts = Good();
    each.spoil(facts);
    const std::vector<Finding> findings = CheckSlurm(facts);
    const Finding found = Of(findings, each.topic);
    EXPECT_EQ(found.level, each.level) << each.text;
    EXPECT_THAT(found.text, HasSubstr(each.text));
    EXPECT_FALSE(found.remedy.empty()) << each.text;
  }
}

TEST(SlurmSite, TheNodeIsSlurmsOnThisHost) {
  EXPECT_EQ(OnlyNode("gpu07\n", "vm").value(), "gpu07");
  EXPECT_EQ(OnlyNode("", "vm").value(), "vm") << "Slurm does not know this host";
  const auto several = OnlyNode("n0 n1\nn2\n", "vm");
  ASSERT_FALSE(several);
  EXPECT_THAT(several.error().message, HasSubstr("--node (n0, n1, n2)"));
}

TEST(SlurmSite, ReadsSlurmsOutput) {
  const auto lines = ReadLines("AuthInfo   = cred_expire=6,x\nno line\nProlog  = /p\n");
  EXPECT_EQ(lines.at("AuthInfo"), "cred_expire=6,x");
  EXPECT_EQ(lines.at("Prolog"), "/p");
  EXPECT_EQ(ReadWords("NodeName=n1 Gres=carma:4 x").at("Gres"), "carma:4");
  const auto plugin =
      FindPlugin("# x\noptional /a/other.so\nrequired spank_carma.so socket=/s wait=3\n");
  ASSERT_TRUE(plugin);
  EXPECT_TRUE(plugin->required);
  EXPECT_EQ(plugin->socket, "/s");
  EXPECT_FALSE(FindPlugin("include /etc/slurm/plugstack.conf.d/*\n#required spank_carma.so\n"));
  EXPECT_EQ(CarmaCount("gpu:a100:4(S:0),carma:156(S:0-1)"), 156);
  EXPECT_FALSE(CarmaCount("(null)"));
  EXPECT_EQ(ReleaseOf("slurm-wlm 22.05.8\n"), "22.05.8");
  EXPECT_EQ(PluginRelease("\x7f"
                          "ELF…carma for Slurm 22.05.8\0…"),
            "22.05.8");
  EXPECT_EQ(PluginRelease("ELF"), "");
}

}  // namespace
}  // namespace carma::cli
